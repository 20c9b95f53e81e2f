// Boost.Asio and Boost.Beast compiled once, here (BOOST_ASIO_SEPARATE_COMPILATION): every other file sees declarations
// only.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
