#include "daemon/http/tls_context.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::http {
namespace {

constexpr const char* ciphers_of_1_2 =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr const char* groups = "X25519:P-256:P-384";

std::unexpected<Problem> refused(std::string_view what) {
  const char* why = ERR_reason_error_string(ERR_peek_error());  // the first error is the cause
  ERR_clear_error();
  return fail(Code::validation_failed, fmt::format("TLS: {}: {}", what, why == nullptr ? "is not usable" : why));
}

// The protocols that a client offers: length, name, length, name, …
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  static constexpr std::array<unsigned char, 9> ours{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, ours.data(), ours.size(), offered, offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

Result<void> check_readable(const std::string& file) {
  if (file.empty()) return {};
  const store::Fd fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  int error = 0;
  if (!fd || ::fstat(fd.get(), &status) != 0) error = errno;
  if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
  if (error == 0) return {};
  return fail(Code::validation_failed, fmt::format("TLS: {}: {}", file, std::generic_category().message(error)));
}

Result<TlsContext> make_tls_context(const TlsFiles& files) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX* tls = context.get();
  if (tls == nullptr) return refused("a context");
  SSL_CTX_set_options(tls, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Buffers are freed between records, so that an idle connection takes half the memory.
  SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);  // session tickets need no cache
  for (const std::string& file : {files.cert, files.key, files.client_ca}) TRY(check_readable(file));
  SSL_CTX_set_alpn_select_cb(tls, choose_protocol, nullptr);
  if (SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 || SSL_CTX_set_cipher_list(tls, ciphers_of_1_2) != 1 ||
      SSL_CTX_set1_groups_list(tls, groups) != 1)
    return refused("ciphers");
  if (SSL_CTX_use_certificate_chain_file(tls, files.cert.c_str()) != 1) return refused(files.cert);
  if (SSL_CTX_use_PrivateKey_file(tls, files.key.c_str(), SSL_FILETYPE_PEM) != 1) return refused(files.key);
  if (SSL_CTX_check_private_key(tls) != 1)
    return refused(fmt::format("{} is not the key of {}", files.key, files.cert));
  if (files.client_ca.empty()) return context;
  if (SSL_CTX_load_verify_locations(tls, files.client_ca.c_str(), nullptr) != 1) return refused(files.client_ca);
  SSL_CTX_set_client_CA_list(tls, SSL_load_client_CA_file(files.client_ca.c_str()));
  static constexpr std::string_view session_id = "sessiond";
  SSL_CTX_set_session_id_context(tls, reinterpret_cast<const unsigned char*>(session_id.data()),  // NOLINT
                                 session_id.size());
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, nullptr);  // a client may have no certificate, but not an invalid one
  return context;
}

std::string common_name_of_peer(SSL* connection) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(connection), X509_free);
  if (!certificate || SSL_get_verify_result(connection) != X509_V_OK) return {};
  std::array<char, 128> name{};
  const int size =
      X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name.data(), name.size());
  return size > 0 ? std::string(name.data(), static_cast<std::size_t>(size)) : std::string();
}

}  // namespace sessiond::http
