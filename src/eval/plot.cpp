#include "eval/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace krafla {
namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 70, kRight = 200, kTop = 40, kBottom = 50;
constexpr const char* kColors[] = {"#1f77b4", "#d95f02", "#2ca02c", "#9467bd",
                                   "#8c564b", "#17a2b8", "#7f7f7f", "#bcbd22"};

/// Text as XML wants it.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += byte < 0x20 || byte >= 0x7f ? '?' : c;
  }
  return out;
}

/// Data to places on the page.
struct Frame {
  std::vector<double> x_ticks, y_ticks;

  double x(double value) const { return kLeft + value / x_ticks.back() * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return kHeight - kBottom - value / y_ticks.back() * (kHeight - kTop - kBottom);
  }
};

std::string label(double x, double y, std::string_view anchor, std::string_view text,
                  std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string rule(double x0, double y0, double x1, double y1, std::string_view stroke) {
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" {}/>\n", x0, y0, x1, y1, stroke);
}

std::string axes(const Plot& plot, const Frame& frame) {
  const double right = kWidth - kRight, bottom = kHeight - kBottom;
  std::string out;
  for (const double tick : frame.y_ticks) {
    out += rule(kLeft, frame.y(tick), right, frame.y(tick), "stroke=\"#ddd\"");
    out += label(kLeft - 8, frame.y(tick) + 4, "end", fmt::format("{:g}", tick));
  }
  for (const double tick : frame.x_ticks) {
    out += rule(frame.x(tick), bottom, frame.x(tick), bottom + 5, "stroke=\"#000\"");
    out += label(frame.x(tick), bottom + 19, "middle", fmt::format("{:g}", tick));
  }
  out += rule(kLeft, bottom, right, bottom, "stroke=\"#000\"");
  out += label((kLeft + right) / 2, 22, "middle", plot.title, " font-weight=\"bold\"");
  out += label((kLeft + right) / 2, kHeight - 10, "middle", plot.x_label);
  const double middle = (kTop + bottom) / 2;
  return out + label(18, middle, "middle", plot.y_label,
                     fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
}

std::string line(const PlotLine& line, const Frame& frame, const char* color) {
  std::string places, dots;
  for (const auto& [x, y] : line.points) {
    places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", frame.x(x), frame.y(y));
    if (!line.limit)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", frame.x(x),
                          frame.y(y), color);
  }
  const char* dashes = line.limit ? " stroke-dasharray=\"6 4\"" : "";
  return fmt::format("<polyline points=\"{}\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", places, color,
                     dashes) +
         dots;
}

}  // namespace

std::vector<double> axis_ticks(double most) {
  if (!(most > 0)) return {0, 1};
  double up = 1,
         down = 1e9;  // steps are 1, 2 or 5 times up / down: both whole, so that ticks are rounded once
  while (70 * up / down < most) (down > 1 ? down /= 10 : up *= 10);
  const double factor = 7 * up / down >= most    ? 1
                        : 14 * up / down >= most ? 2
                        : 35 * up / down >= most ? 5
                                                 : 10;
  std::vector<double> ticks;
  for (int i = 0; ticks.empty() || ticks.back() < most; ++i) ticks.push_back(i * factor * up / down);
  return ticks;
}

std::string svg(const Plot& plot) {
  double x_most = 0, y_most = 0;
  for (const PlotLine& l : plot.lines)
    for (const auto& [x, y] : l.points) {
      x_most = std::max(x_most, x);
      y_most = std::max(y_most, y);
    }
  const Frame frame{axis_ticks(x_most), axis_ticks(y_most)};
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"none\">\n<rect width=\"{0:g}\" height=\"{1:g}\" "
      "fill=\"#fff\"/>\n<g "
      "fill=\"#000\">\n",
      kWidth, kHeight);
  out += axes(plot, frame) + "</g>\n";
  std::size_t colors = 0;
  double y = kTop + 8;
  for (const PlotLine& l : plot.lines) {
    if (!l.limit || colors == 0) ++colors;
    const char* color = kColors[(colors - 1) % std::size(kColors)];
    out += line(l, frame, color);
    out += rule(
        kWidth - kRight + 14, y - 4, kWidth - kRight + 38, y - 4,
        fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", color, l.limit ? " stroke-dasharray=\"6 4\"" : ""));
    out += label(kWidth - kRight + 44, y, "start", l.name, " fill=\"#000\"");
    y += 18;
  }
  return out + "</svg>\n";
}

}  // namespace krafla
