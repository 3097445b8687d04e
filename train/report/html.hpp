// The parts of an HTML page. Text that a caller gives is escaped here, so that no name or value can end an element.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::train {

// Text for an element or a quoted attribute: &, <, >, " and ' become references, and control characters and bytes that
// are not UTF-8 visible escapes (data::printable); line feeds and tabs stay.
std::string html_escape(std::string_view text);

// A cell: text, and the id of the element of this page that it links to, if any.
struct HtmlCell {
  HtmlCell(std::string shown = {}, std::string target_id = {}) : text(std::move(shown)), target(std::move(target_id)) {}
  HtmlCell(const char* shown) : text(shown) {}
  std::string text, target;
};

// The first row is the header, the first cell of each other row the header of the row. A table that is wider than the
// page scrolls by itself. No column of which all cells but the header are empty is shown. left: the columns with text,
// which are flush left; the others are flush right.
std::string html_table(std::string_view caption, const std::vector<std::vector<HtmlCell>>& rows,
                       const std::set<size_t>& left = {0});

// Names with their values, as <dl>.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

std::string html_paragraph(std::string_view text);
// Text in a fixed-width font, its lines as they are.
std::string html_preformatted(std::string_view text);

// HTML that a click on the summary shows.
std::string html_details(std::string_view summary, std::string_view html);

// The picture as part of the page, without its XML prologue and metadata. svg: a picture that draw_picture() returned,
// not a file: an SVG in a page can hold scripts.
std::string html_svg(std::string_view svg, std::string_view alt, std::string_view caption);
// The picture as an image with a data: address, in which a browser runs no scripts and loads nothing.
std::string html_svg_image(std::string_view svg, std::string_view alt, std::string_view caption);

// A whole page that begins with kReportStart and refers to nothing outside. main: the HTML after the heading.
std::string html_page(std::string_view title, std::string_view main);

}  // namespace heed::train
