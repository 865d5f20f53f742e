//! Markdown as HTML for our own pages: headings that can be linked to, links between documents,
//! code that can be copied, tables that scroll on a phone.

use std::collections::HashSet;

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html as writer};

/// A parsed document.
pub(super) struct MarkdownDocument {
    pub title: String,
    pub body: Markup,
    pub sections: Vec<DocumentSection>,
}

/// The content under one heading.
pub(super) struct DocumentSection {
    /// The part of its URL after `#`.
    pub id: String,
    pub title: String,
    /// 1 for the document's own title.
    pub level: u8,
    /// Without markup.
    pub text: String,
}

/// Reads a document. `link` turns the target of a link into a URL on this site; a target
/// without one becomes plain text.
pub(super) fn read(text: &str, link: impl Fn(&str) -> Option<String>) -> MarkdownDocument {
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES);
    let mut reader = MarkdownReader {
        link,
        output: Vec::new(),
        sections: Vec::new(),
        ids: HashSet::new(),
        dropped_links: Vec::new(),
    };
    let mut events = parser.into_iter();
    while let Some(event) = events.next() {
        reader.handle(event, &mut events);
    }
    let mut body = String::new();
    writer::push_html(&mut body, reader.output.into_iter());
    let title = reader.sections.first().map(|first| first.title.clone());
    MarkdownDocument {
        title: title.unwrap_or_default(),
        body: PreEscaped(body),
        sections: reader.sections,
    }
}

struct MarkdownReader<'a, L> {
    link: L,
    output: Vec<Event<'a>>,
    sections: Vec<DocumentSection>,
    ids: HashSet<String>,
    /// For each open link, whether it became plain text.
    dropped_links: Vec<bool>,
}

impl<'a, L: Fn(&str) -> Option<String>> MarkdownReader<'a, L> {
    fn handle(&mut self, event: Event<'a>, rest: &mut impl Iterator<Item = Event<'a>>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => self.heading(level as u8, rest),
            Event::Start(Tag::CodeBlock(_)) => self.code_block(rest),
            Event::Start(Tag::Link { dest_url, .. }) => self.open_link(&dest_url),
            Event::End(TagEnd::Link) => {
                if !self.dropped_links.pop().unwrap_or(false) {
                    self.output.push(Event::End(TagEnd::Link));
                }
            }
            Event::Start(Tag::Table(columns)) => {
                // A table can be wider than the page; keyboard users must be able to scroll it.
                self.html(
                    "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table\">",
                );
                self.output.push(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                self.output.push(Event::End(TagEnd::Table));
                self.html("</div>");
            }
            // HTML in a document is shown as text: nothing in it may become markup of the page.
            Event::Html(text) | Event::InlineHtml(text) | Event::Text(text) => self.text(text),
            Event::Code(text) => {
                self.add_search_text(&text);
                self.output.push(Event::Code(text));
            }
            Event::SoftBreak | Event::HardBreak => {
                self.add_search_text(" ");
                self.output.push(event);
            }
            Event::End(end) => {
                // Words of neighbouring elements must not run together in the text for the search.
                self.add_search_text(" ");
                self.output.push(Event::End(end));
            }
            other => self.output.push(other),
        }
    }

    fn heading(&mut self, level: u8, rest: &mut impl Iterator<Item = Event<'a>>) {
        let mut title = String::new();
        for event in rest.by_ref() {
            match event {
                Event::End(TagEnd::Heading(_)) => break,
                Event::Text(text) | Event::Code(text) => title.push_str(&text),
                _ => {}
            }
        }
        let mut id = slug(&title);
        // With the same id twice, links to the second heading would lead to the first.
        while !self.ids.insert(id.clone()) {
            id.push_str("-2");
        }
        let inner = html! { a.anchor href={ "#" (id) } { (title) } };
        let heading = match level {
            1 => html! { h1 id=(id) { (title) } },
            2 => html! { h2 id=(id) { (inner) } },
            _ => html! { h3 id=(id) { (inner) } },
        };
        self.html(&heading.into_string());
        self.sections.push(DocumentSection {
            id,
            title,
            level,
            text: String::new(),
        });
    }

    fn code_block(&mut self, rest: &mut impl Iterator<Item = Event<'a>>) {
        let mut code = String::new();
        for event in rest.by_ref() {
            match event {
                Event::End(TagEnd::CodeBlock) => break,
                Event::Text(text) => code.push_str(&text),
                _ => {}
            }
        }
        let code = code.trim_end();
        self.add_search_text(code);
        // The button does nothing without the script, so it is hidden until the script runs.
        let block = html! {
            div.code {
                pre tabindex="0" { code { (code) } }
                button.copy type="button" data-copy=(code) hidden { "Copy" }
            }
        };
        self.html(&block.into_string());
    }

    fn open_link(&mut self, target: &str) {
        let address = (self.link)(target);
        self.dropped_links.push(address.is_none());
        if let Some(address) = address {
            self.output.push(Event::Start(Tag::Link {
                link_type: pulldown_cmark::LinkType::Inline,
                dest_url: address.into(),
                title: CowStr::Borrowed(""),
                id: CowStr::Borrowed(""),
            }));
        }
    }

    fn text(&mut self, text: CowStr<'a>) {
        self.add_search_text(&text);
        self.output.push(Event::Text(text));
    }

    fn html(&mut self, text: &str) {
        self.output.push(Event::Html(text.to_owned().into()));
    }

    /// Adds text to the current section, for the search.
    fn add_search_text(&mut self, text: &str) {
        if let Some(section) = self.sections.last_mut() {
            section.text.push_str(text);
        }
    }
}

/// A heading's id as GitHub makes it, so that links between the files work in both places.
fn slug(title: &str) -> String {
    let slug_char = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
    };
    title.trim().chars().filter_map(slug_char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> String {
        let link = |target: &str| {
            target
                .strip_suffix(".md")
                .map(|name| format!("/docs/{name}"))
        };
        read(text, link).body.into_string()
    }

    #[test]
    fn headings_links_code_and_tables() {
        let text = "# A `b` c\n\nSee [other](money.md) and [code](../src/x.rs).\n\n## Of it, all\n\n```sh\ncurl \"x\"\n```\n\n| a |\n|---|\n| 1 |\n";
        let html = render(text);
        for part in [
            "<h1 id=\"a-b-c\">A b c</h1>",
            "<a href=\"/docs/money\">other</a> and code.",
            "<h2 id=\"of-it-all\"><a class=\"anchor\" href=\"#of-it-all\">Of it, all</a></h2>",
            "data-copy=\"curl &quot;x&quot;\"",
            "<td>1</td>",
        ] {
            assert!(html.contains(part), "{part}\n{html}");
        }
    }

    #[test]
    fn markup_in_a_document_is_text() {
        let html = render("# T\n\n<script>alert(1)</script>\n\na <b onclick=x>b</b>\n");
        assert!(!html.contains("<script") && !html.contains("<b "), "{html}");
    }

    #[test]
    fn headings_with_the_same_title_have_different_ids() {
        let html = render("# T\n\n## Same\n\n## Same\n");
        assert!(html.contains("id=\"same\"") && html.contains("id=\"same-2\""));
    }
}
