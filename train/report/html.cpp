#include "train/report/html.hpp"

#include <fmt/format.h>

#include "data/io/utf8.hpp"
#include "train/report/html_style.hpp"
#include "train/run/run_mark.hpp"
#include "train/run/version.hpp"

namespace heed::train {
namespace {

std::string cell_html(const HtmlCell& cell) {
  const std::string text = html_escape(cell.text);
  return cell.target.empty() ? text : fmt::format("<a href=\"#{}\">{}</a>", html_escape(cell.target), text);
}

std::vector<size_t> columns_with_text(const std::vector<std::vector<HtmlCell>>& rows) {
  std::vector<size_t> columns;
  for (size_t column = 0; column < rows.front().size(); ++column) {
    bool has_text = false;
    for (size_t row = 1; row < rows.size(); ++row) has_text = has_text || !rows[row][column].text.empty();
    if (has_text) columns.push_back(column);
  }
  return columns;
}

// RFC 4648
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= group.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string figure(std::string_view picture, std::string_view caption) {
  return fmt::format("<figure>\n<div tabindex=\"0\">{}</div>\n<figcaption>{}</figcaption>\n</figure>\n", picture,
                     html_escape(caption));
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string escaped;
  for (const char c : data::printable(std::string(text), data::Layout::keep)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string html_table(std::string_view caption, const std::vector<std::vector<HtmlCell>>& rows,
                       const std::set<size_t>& left) {
  const std::vector<size_t> columns = columns_with_text(rows);
  const auto cell = [&](std::string_view element, std::string_view scope, size_t row, size_t column) {
    return fmt::format("<{0}{1}{2}>{3}</{0}>", element, scope, left.contains(column) ? " class=\"left\"" : "",
                       cell_html(rows[row][column]));
  };
  std::string text =
      fmt::format("<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption><span>{}</span></caption>\n<thead>\n<tr>",
                  html_escape(caption));
  for (const size_t column : columns) text += cell("th", " scope=\"col\"", 0, column);
  text += "</tr>\n</thead>\n<tbody>\n";
  for (size_t row = 1; row < rows.size(); ++row) {
    text += "<tr>";
    for (const size_t column : columns) {
      text += column == columns.front() ? cell("th", " scope=\"row\"", row, column) : cell("td", "", row, column);
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string text = "<dl>\n";
  for (const auto& [name, value] : facts) {
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escape(name), html_escape(value));
  }
  return text + "</dl>\n";
}

std::string html_paragraph(std::string_view text) { return fmt::format("<p>{}</p>\n", html_escape(text)); }

std::string html_preformatted(std::string_view text) {
  return fmt::format("<pre tabindex=\"0\">{}</pre>\n", html_escape(text));
}

std::string html_details(std::string_view summary, std::string_view html) {
  return fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", html_escape(summary), html);
}

std::string html_svg(std::string_view svg, std::string_view alt, std::string_view caption) {
  constexpr std::string_view kStart = "<svg ", kMetadata = "<metadata>", kMetadataEnd = "</metadata>";
  std::string picture(svg.substr(svg.find(kStart)));
  const size_t begin = picture.find(kMetadata), end = picture.find(kMetadataEnd);
  if (begin < end && end != picture.npos) picture.erase(begin, end + kMetadataEnd.size() - begin);
  picture.insert(kStart.size(), fmt::format("role=\"img\" aria-label=\"{}\" ", html_escape(alt)));
  return figure(picture, caption);
}

std::string html_svg_image(std::string_view svg, std::string_view alt, std::string_view caption) {
  return figure(fmt::format("<img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\">", html_escape(alt), base64(svg)),
                caption);
}

std::string html_page(std::string_view title, std::string_view main) {
  const std::string name = html_escape(title);
  return fmt::format(
      "{}{}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n{}</main>\n<footer>Made by heed {}.</footer>\n</body>\n"
      "</html>\n",
      kReportStart, kVersion, name, kHtmlStyle, name, main, kVersion);
}

}  // namespace heed::train
