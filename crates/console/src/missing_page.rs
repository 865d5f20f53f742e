//! The page for a wrong address, with ways back.

use maud::html;

use super::view::SiteContext;
use super::{PageFrame, layout};

pub fn missing_page(site: &SiteContext) -> String {
    let body = html! {
        section.hero.low {
            p.eyebrow { "404" }
            h1 { "There is no page at this address" }
            p.lead { "The address may be misspelt, or the page may have moved." }
            p {
                a.button href="/" { "Start page" } " " a.button.quiet href="/console" { "Console" } " "
                a.button.quiet href="/docs" { "Documentation" }
            }
        }
    };
    let frame = PageFrame {
        title: "Page not found",
        here: "",
        extra: &[],
        body: &body,
    };
    layout(site, &frame)
}
