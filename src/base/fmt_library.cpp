// Compiles the functions of fmt's library from its headers. Debian provides the library only as a shared
// object, but krafla is to be one file.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template auto thousands_sep_impl<wchar_t>(locale_ref) -> thousands_sep_result<wchar_t>;
template auto decimal_point_impl<wchar_t>(locale_ref) -> wchar_t;
template auto locale_ref::get<std::locale>() const -> std::locale;
template locale_ref::locale_ref(const std::locale&);
}  // namespace detail
FMT_END_NAMESPACE
