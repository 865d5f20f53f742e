//! The console: an empty page that scripts fill through the public API, with the key that the user enters.
//!
//! The server puts no account data into the page; without a key it shows only the form.

use maud::{Markup, html};

use super::view::ConsolePage;
use super::{Frame, layout};

pub fn console(page: &ConsolePage) -> String {
    let body = html! {
        noscript { p.notice.bad { "The console needs JavaScript. Everything it does can be done with the API; see the docs." } }
        (key_form())
        div #desk hidden {
            div.desk-head {
                h1 { "Console" }
                button.quiet #forget type="button" { "Forget the key" }
            }
            p.notice.bad #ledger-alarm role="alert" hidden {}
            (playground(page))
            (tasks())
            (money())
            (routes())
        }
        dialog #detail aria-labelledby="detail-title" {
            div.dialog-head {
                h2 #detail-title { "Task" }
                button.quiet #detail-close type="button" { "Close" }
            }
            div #detail-body {}
        }
    };
    let frame = Frame {
        title: "Console",
        here: "/console",
        extra: &["console.css", "console.js"],
        body: &body,
    };
    layout(&page.site, &frame)
}

fn key_form() -> Markup {
    html! {
        section.hero.low #key-section hidden {
            p.eyebrow { "Console" }
            h1 { "Watch your tasks, try the models" }
            form #key-form .card.narrow {
                label for="key" { "API key" }
                input #key name="key" type="password" required autocomplete="off" spellcheck="false" placeholder="sk-mg-…" aria-describedby="key-help";
                p.muted #key-help {
                    "The key stays in this tab: it is kept in the browser's session storage, is sent to this gateway only, "
                    "and is gone when you close the tab. A key is made with " code { "mediagate keys create --name me" } "."
                }
                p.notice.bad #key-error role="alert" hidden {}
                button type="submit" { "Open" }
            }
        }
    }
}

fn tasks() -> Markup {
    html! {
        section aria-labelledby="tasks-title" {
            div.section-head {
                h2 #tasks-title { "Recent tasks" }
                p.muted #live role="status" { "loading" }
            }
            p.notice.bad #tasks-error role="alert" hidden {}
            div.scroll {
                table.tasks {
                    caption.unseen { "The 50 newest tasks of your account, newest first" }
                    thead { tr {
                        th scope="col" { "Task" } th scope="col" { "Model" } th scope="col" { "Status" }
                        th scope="col" { "Cost" } th scope="col" { "Started" } th scope="col" { span.unseen { "Actions" } }
                    } }
                    tbody #task-rows {}
                }
            }
            p.empty #no-tasks hidden { "No tasks yet. Create the first one above." }
        }
    }
}

/// The account's money, this month's usage, and the keys.
fn money() -> Markup {
    html! {
        section #money-section aria-labelledby="money-title" hidden {
            div.section-head {
                h2 #money-title { "Money" }
                p.muted #money-policy {}
            }
            dl.figures #money-figures {}
            div.sums-pair {
                div #usage-box hidden {
                    div.section-head {
                        h3 #usage-title { "This month" }
                        button.quiet #usage-csv type="button" { "Download by day (CSV)" }
                    }
                    p.notice.bad #usage-error role="alert" hidden {}
                    (sums("usage", "usage-title", &["Model", "Made", "Failed", "Cancelled", "Paid (USD)"]))
                    p.empty #no-usage hidden { "No task has ended this month." }
                }
                div {
                    div.section-head { h3 #keys-title { "Keys" } }
                    (sums("keys", "keys-title", &["Key", "Spent (USD)", "Held (USD)", "Budget (USD)"]))
                }
            }
        }
    }
}

/// A table with a name and figures.
fn sums(id: &str, title: &str, columns: &[&str]) -> Markup {
    html! {
        table.sums #{ (id) "-table" } aria-labelledby=(title) {
            thead { tr { @for column in columns { th scope="col" { (column) } } } }
            tbody #{ (id) "-rows" } {}
        }
    }
}

/// Filled only if the key may see the routes.
fn routes() -> Markup {
    html! {
        section #routes-section aria-labelledby="routes-title" hidden {
            div.section-head {
                h2 #routes-title { "Providers" }
                p.muted { "The current state of each route. Paused routes are retried automatically." }
            }
            div.scroll {
                table.tasks {
                    caption.unseen { "Routes of every model" }
                    thead { tr {
                        th scope="col" { "Model" } th scope="col" { "Provider" } th scope="col" { "Its model" }
                        th scope="col" { "State" }
                    } }
                    tbody #route-rows {}
                }
            }
        }
    }
}

fn playground(page: &ConsolePage) -> Markup {
    let tabs = [
        ("video", "Video"),
        ("stems", "Stems"),
        ("persona", "Persona"),
    ];
    html! {
        section.card aria-labelledby="play-title" {
            div.section-head {
                h2 #play-title { "Playground" }
                div.tabs role="tablist" aria-label="What to make" {
                    @for (at, (id, name)) in tabs.into_iter().enumerate() {
                        button type="button" role="tab" id={ "tab-" (id) } aria-controls={ "panel-" (id) }
                            aria-selected=(at == 0) tabindex=(if at == 0 { "0" } else { "-1" }) { (name) }
                    }
                }
            }
            div #panel-video role="tabpanel" aria-labelledby="tab-video" { (video_form(page)) }
            div #panel-stems role="tabpanel" aria-labelledby="tab-stems" hidden { (stems_form(&page.music_model)) }
            div #panel-persona role="tabpanel" aria-labelledby="tab-persona" hidden { (persona_form()) }
        }
    }
}

fn video_form(page: &ConsolePage) -> Markup {
    html! {
        form #video-form .grid {
            label.wide { span { "Prompt" }
                textarea name="prompt" rows="3" required { "A calm lake at sunrise, slow dolly in" } }
            label { span { "Model" } select name="model" data-kind="video" data-first=(page.video_model) required {} }
            label { span { "Picture (optional)" } input type="file" name="picture" accept="image/*" data-bytes=(page.picture_bytes); }
            label { span { "Seconds" } input type="number" name="seconds" min="1" max="60" step="1" placeholder="model's default"; }
            label { span { "Size" } input type="text" name="size" pattern="[0-9]+x[0-9]+" placeholder="1280x720" list="sizes";
                datalist #sizes { option value="1280x720"; option value="720x1280"; option value="1024x1024"; option value="1920x1080"; } }
            (submit("Make the video"))
        }
    }
}

fn stems_form(model: &str) -> Markup {
    html! {
        form #stems-form .grid {
            label.wide { span { "Song (WAV, FLAC, MP3, M4A or OGG)" } input type="file" name="file" accept="audio/*" required; }
            label { span { "Model" } select name="mv" data-kind="music" data-first=(model) {} }
            label { span { "Wanted stem" } select name="stem_type_group_name" {
                @for group in ["Vocals", "Drums", "Bass"] { option { (group) } }
            } }
            label { span { "Split into" } select name="stem_task" {
                option value="two" { "the stem and the rest" }
                option value="twelve" { "every stem the model knows" }
            } }
            (submit("Upload and separate"))
        }
    }
}

fn persona_form() -> Markup {
    html! {
        form #persona-form .grid {
            label.wide { span { "Clip to take the voice from" } select name="root_clip_id" required {} }
            label { span { "Name" } input type="text" name="name" maxlength="80" required; }
            label { span { "Description" } input type="text" name="description" maxlength="1000"; }
            (submit("Create the persona"))
        }
    }
}

/// The button of a form, and the place for its result.
fn submit(label: &str) -> Markup {
    html! {
        div.wide.outcome {
            button type="submit" { (label) }
            p.result role="status" {}
        }
        div.wide.made {}
    }
}
