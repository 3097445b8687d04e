// The style sheet of the pages: light and dark, narrow and wide, and printed. Pictures stay on white, since they are
// drawn for it.
#pragma once

namespace heed::train {

inline constexpr const char* kHtmlStyle = R"css(
:root { color-scheme: light dark; --text: #1c1e21; --soft: #5c6370; --line: #d9dce1; --back: #fff; --card: #f6f7f9;
  --link: #0a58ca; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e6ea; --soft: #a0a7b4; --line: #3a3f47; --back: #16181c; --card: #1f2228; --link: #7ab0ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main, footer { max-width: 1200px; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.25; overflow-wrap: anywhere; }
h1 { margin: 1rem 0 .25rem; }
h2 { margin: 2.5rem 0 .75rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { margin: 2rem 0 .5rem; }
p { max-width: 75ch; overflow-wrap: anywhere; }
a { color: var(--link); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; margin: 1rem 0; }
dt, caption, figcaption, footer { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .4rem; font-size: .9em; }
caption span { position: sticky; left: 0; display: inline-block; max-width: min(75ch, 100vw - 2rem); }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; }
.left { text-align: left; }
tbody th { font-weight: 400; }
figure { margin: 1rem 0; }
figure > div { overflow-x: auto; background: #fff; border: 1px solid var(--line); border-radius: 6px; }
figure svg, figure img { display: block; width: 100%; min-width: 620px; height: auto; }
figcaption { font-size: .9em; padding-top: .4rem; }
pre { overflow-x: auto; margin: 1rem 0; padding: .8rem 1rem; background: var(--card); border-radius: 6px;
  font: .85em/1.45 ui-monospace, monospace; }
summary { cursor: pointer; }
footer { font-size: .85em; }
@media print {
  body { font-size: 10pt; }
  main, footer { max-width: none; padding: 0; }
  a { color: inherit; text-decoration: none; }
  details { display: none; }
  .scroll, figure > div, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  figure svg, figure img { min-width: 0; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
}
)css";

}  // namespace heed::train
