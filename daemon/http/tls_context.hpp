// TLS as Mozilla's "intermediate" recommends (ssl-config.mozilla.org, version 5.7): 1.2 and 1.3, forward secrecy and
// AEAD only, no compression, no renegotiation; ALPN is http/1.1. Made anew from its files on SIGHUP.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <optional>
#include <string>

#include "store/problem.hpp"

namespace sessiond {

struct TlsFiles {
  std::string cert{};       // PEM: the certificate, then what leads to its root
  std::string key{};        // PEM
  std::string client_ca{};  // PEM; "": certificates of clients are not asked for
};

using TlsContext = std::shared_ptr<SSL_CTX>;

// A Problem that names the file when it is not there or cannot be read; an empty name is none.
Result<void> check_readable(const std::string& file);
// A Problem that names the file and what is wrong with it.
Result<TlsContext> make_tls_context(const TlsFiles& files);

// The common name of the certificate that the client has shown and proved; "" without one.
std::string common_name_of_peer(SSL* connection);

}  // namespace sessiond
