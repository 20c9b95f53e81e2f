// A real Server on a thread of its own and a client that is a bare socket, for tests that speak HTTP byte by byte.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/http/server.hpp"
#include "tests/unit/temp_dir.hpp"

namespace sessiond::testing {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names lower-case
  std::string body;
};

class Client {
 public:
  explicit Client(unsigned short port);
  explicit Client(const std::string& unix_path);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  Answer receive(bool head = false);  // one reply; head: it has no body whatever it says
  std::string receive_some();         // "" at the end
  std::string receive_all();          // until the server closes
  bool closed();                      // the server has closed, and said nothing before
  void close();
  void small_receive_buffer();

 private:
  void connected();
  int fd_ = -1;
  std::string buffer_;
};

class RunningServer {
 public:
  explicit RunningServer(http::Router router, http::ServerOptions options = {}, const std::string& unix_path = {});
  ~RunningServer();

  template <class Call>
  auto on_thread(Call call) {  // on the network thread, waited for
    auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
    auto result = task->get_future();
    boost::asio::post(io, [task] { (*task)(); });
    return result.get();
  }
  void stop();  // begins; see stopped
  std::future<void> stopped();

  boost::asio::io_context io{1};
  boost::asio::thread_pool disk{2};
  http::Router router;
  std::unique_ptr<http::Server> server;
  unsigned short port = 0;

 private:
  std::thread thread_;
};

// Routes most tests want: GET /hello, POST /echo (the body back), GET /who (local_admin and peer).
http::Router plain_routes();

}  // namespace sessiond::testing
