// Makes the TLS configuration: Mozilla's "intermediate" recommendation (ssl-config.mozilla.org, version 5.7), that is
// TLS 1.2 and 1.3, forward secrecy and AEAD only, no compression, no renegotiation; ALPN is http/1.1. On SIGHUP it is
// made again from its files.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "store/problem.hpp"

namespace sessiond::http {

struct TlsFiles {
  std::string cert{};       // PEM: the certificate, then its intermediates
  std::string key{};        // PEM
  std::string client_ca{};  // PEM; "": clients are not asked for a certificate
};

using TlsContext = std::shared_ptr<SSL_CTX>;

// Fails with a Problem that names the file if it does not exist or cannot be read. An empty name is accepted.
Result<void> check_readable(const std::string& file);
// Fails with a Problem that names the file and its fault.
Result<TlsContext> make_tls_context(const TlsFiles& files);

// Returns the common name of the client's verified certificate; "" when it has none.
std::string common_name_of_peer(SSL* connection);

}  // namespace sessiond::http
