#include "daemon/api/handler.hpp"
namespace sessiond::api {
void add_import_routes(http::Router& /*router*/, Api& /*api*/) {}
}  // namespace sessiond::api
