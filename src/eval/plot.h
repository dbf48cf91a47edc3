// A line plot as SVG text: axes from zero, a legend, nothing else. Non-goal: any other kind of plot.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace krafla {

/// One line. A limit is drawn dashed, in the colour of the line before it.
struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (x, y), both finite and >= 0, by ascending x
  bool limit = false;
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotLine> lines;
};

/// The plot as a whole SVG file, UTF-8. Names may hold any characters; those that XML does not allow become
/// question marks.
std::string svg(const Plot& plot);

/// Numbers for an axis from 0 to at least `most`: at most 7 steps of 1, 2 or 5 times a power of ten. {0, 1}
/// when most is not above 0.
std::vector<double> axis_ticks(double most);

}  // namespace krafla
