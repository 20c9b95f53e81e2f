// Compiles Boost.Asio and Boost.Beast once (BOOST_ASIO_SEPARATE_COMPILATION): other files see declarations only.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
