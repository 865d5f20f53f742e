//! The price list as HTML.

use maud::{Markup, html};

use orders::MediaKind;

use super::view::{ModelRow, PricingPage};
use super::{PageFrame, layout};

pub fn pricing(page: &PricingPage) -> String {
    let available = page.models.iter().filter(|model| model.available).count();
    let body = html! {
        section.hero.low {
            p.eyebrow { "Models and prices" }
            h1 { "Available models and their prices" }
            p.lead {
                span #up-count { (available) } " of " (page.models.len()) " models available. "
                span.muted { "As of " time #as-of datetime=(page.generated_at) { (page.generated_at) } "." }
            }
            // The script does the filtering, so the box is hidden until the script runs.
            p.filter #filter-box hidden {
                label for="filter" { "Filter" }
                input #filter type="search" placeholder="name, size, stem, free …" autocomplete="off" spellcheck="false";
                span.muted #filter-count role="status" {}
            }
        }
        (group("Video", MediaKind::Video, &page.models))
        (group("Music", MediaKind::Music, &page.models))
        p.muted {
            "The price is reserved when a task is accepted. You pay only for what was made. A failed task costs "
            "nothing, also if its provider charges the operator when it refuses an order. The same data as JSON: " a href="/pricing.json" { "/pricing.json" } "."
        }
    };
    layout(
        &page.site,
        &PageFrame {
            title: "Models and prices",
            here: "/pricing",
            extra: &["pricing.js"],
            body: &body,
        },
    )
}

fn group(title: &str, kind: MediaKind, models: &[ModelRow]) -> Markup {
    let id = title.to_lowercase();
    let members: Vec<&ModelRow> = models.iter().filter(|model| model.kind == kind).collect();
    html! {
        section.group aria-labelledby=(id) {
            h2 #(id) { (title) " " span.badge { (members.len()) } }
            @if members.is_empty() {
                p.muted { "No model of this kind is configured." }
            } @else {
                div.models { @for model in members { (card(model)) } }
            }
        }
    }
}

fn card(model: &ModelRow) -> Markup {
    html! {
        article.card.model data-model=(model.id) data-words=(words(model)) {
            div.model-head {
                h3 { code { (model.id) } }
                button.copy type="button" data-copy=(model.id) aria-label={ "Copy " (model.id) } hidden { "Copy" }
            }
            p.state-line {
                span.state data-up=(model.available) {
                    span.dot aria-hidden="true" {}
                    span.word { @if model.available { "available" } @else { "unavailable" } }
                }
                span.price data-price { (model.price) }
                // Always in the page: the script fills it if a price is announced later.
                span.next-price data-next-price hidden[model.next_price.is_none()] { @if let Some(next) = &model.next_price { (next) } }
            }
            p { (model.summary) }
            dl {
                (row("Input", &model.takes))
                (row("Output", &model.makes))
                (row("Length", model.durations.as_slice()))
                (row("Sizes", &model.sizes))
                (row("Stems", &model.stems))
                (row("Aliases", &model.aliases))
                (row("Providers", &model.providers))
                dt { "Charged when refused" }
                dd { (model.refusals) }
                dt { "Median" }
                dd data-median { @if let Some(median) = &model.median { (median) " over the last 24 h" } @else { "no runs in the last 24 h" } }
            }
            @if !model.notes.is_empty() {
                ul.notes { @for note in &model.notes { li { (note) } } }
            }
        }
    }
}

/// A row with its values; nothing if there are none.
fn row(name: &str, values: &[String]) -> Markup {
    html! {
        @if !values.is_empty() {
            dt { (name) }
            dd { @for value in values { span.chip { (value) } " " } }
        }
    }
}

/// The text that the filter searches.
fn words(model: &ModelRow) -> String {
    let lists = [
        &model.takes,
        &model.makes,
        &model.sizes,
        &model.stems,
        &model.aliases,
        &model.providers,
        &model.notes,
    ];
    let mut words = vec![
        model.id.as_str(),
        model.summary.as_str(),
        model.price.as_str(),
    ];
    words.extend(model.next_price.as_deref());
    words.extend(lists.into_iter().flatten().map(String::as_str));
    // In lower case, like the words that the script looks for.
    words.join(" ").to_lowercase()
}
