//! Reading an assistant's text: the link to the video, and percentages.

use url::Url;

/// Extensions of videos.
const VIDEOS: [&str; 6] = [".mp4", ".webm", ".mov", ".m4v", ".mkv", ".avi"];

/// Extensions of other files, which may be next to a video.
const OTHER_EXTENSIONS: [&str; 8] = [
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".html", ".htm", ".json",
];

/// Parts of paths under which gateways store videos.
const VIDEO_PATHS: [&str; 4] = ["/video", "/media/", "/generations/", "/files/"];

/// The link to the video: the last URL with a video's extension, otherwise the last with a video's
/// path, otherwise the last link in Markdown.
pub(super) fn link(text: &str) -> Option<String> {
    let links = addresses(text);
    let last_matching =
        |matches: fn(&Url) -> bool| links.iter().rev().find(|link| matches(&link.url));
    let markdown = || {
        links
            .iter()
            .rev()
            .find(|link| link.is_markdown && !has_extension(&link.url, &OTHER_EXTENSIONS))
    };
    let link = last_matching(|url| has_extension(url, &VIDEOS))
        .or_else(|| {
            last_matching(|url| is_video_path(url) && !has_extension(url, &OTHER_EXTENSIONS))
        })
        .or_else(markdown)?;
    Some(link.text.to_owned())
}

/// The last percentage.
pub(super) fn percent(text: &str) -> Option<u8> {
    let mut signs = text.match_indices(['%', '％']).rev();
    signs.find_map(|(position, _)| {
        let number = text[..position].trim_end();
        let start = number
            .trim_end_matches(|digit: char| digit.is_ascii_digit() || digit == '.')
            .len();
        // Only the integer part: "37.5%".
        let integer = number[start..].split('.').next()?;
        integer.parse().ok().filter(|percent| *percent <= 100)
    })
}

struct TextLink<'a> {
    text: &'a str,
    url: Url,
    is_markdown: bool,
}

fn addresses(text: &str) -> Vec<TextLink<'_>> {
    let starts = text.match_indices("http").filter(|(position, _)| {
        ["http://", "https://"]
            .iter()
            .any(|scheme| text[*position..].starts_with(scheme))
    });
    starts
        .filter_map(|(start, _)| {
            let rest = &text[start..];
            let end = rest.find(ends_url).unwrap_or(rest.len());
            let link_text =
                rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_', '~']);
            let url = Url::parse(link_text).ok()?;
            url.host_str()?;
            Some(TextLink {
                text: link_text,
                url,
                is_markdown: text[..start].ends_with("]("),
            })
        })
        .collect()
}

/// Whether a URL in running text ends at this character.
fn ends_url(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            ')' | '(' | '<' | '>' | '[' | ']' | '{' | '}' | '"' | '\'' | '`' | '|' | '\\' | '^'
        )
        // In other scripts, text follows a URL without a space.
        || !character.is_ascii()
}

fn has_extension(url: &Url, extensions: &[&str]) -> bool {
    let path = url.path().to_ascii_lowercase();
    extensions.iter().any(|extension| path.ends_with(extension))
}

fn is_video_path(url: &Url) -> bool {
    let path = url.path().to_ascii_lowercase();
    VIDEO_PATHS.iter().any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_all_the_ways_gateways_write_them() {
        for (text, expected) in [
            (
                "> ⏳ Task created: `veo3-pro:0f`\n> 12%\n[▶ watch](https://c.example/w/1.mp4) | [⏬ download](https://c.example/d/1.mp4)",
                Some("https://c.example/d/1.mp4"),
            ),
            (
                "![poster](https://c.example/video/1.jpg)\n[video](https://c.example/out/1.mp4?sig=a%2Fb&x=1)",
                Some("https://c.example/out/1.mp4?sig=a%2Fb&x=1"),
            ),
            (
                "Done: https://c.example/v1/videos/abc/content.",
                Some("https://c.example/v1/videos/abc/content"),
            ),
            (
                "视频已生成：https://c.example/1.mp4，请尽快下载",
                Some("https://c.example/1.mp4"),
            ),
            (
                "[play](https://c.example/play?id=1) see https://docs.example",
                Some("https://c.example/play?id=1"),
            ),
            (
                "https://c.example/1.MP4 and more at https://c.example/videos",
                Some("https://c.example/1.MP4"),
            ),
            (
                "**https://c.example/1.webm**",
                Some("https://c.example/1.webm"),
            ),
            (
                "<video src=\"https://c.example/1.mp4\">",
                Some("https://c.example/1.mp4"),
            ),
            ("See https://docs.example for help.", None),
            ("http:// and https://", None),
            ("I cannot do that.", None),
        ] {
            assert_eq!(link(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_last_percentage_counts() {
        for (text, expected) in [
            ("12%\n> 37.5 % done", Some(37)),
            ("进度 40％", Some(40)),
            ("100% sure, 250% faster", Some(100)),
            ("100", None),
            ("%", None),
        ] {
            assert_eq!(percent(text), expected, "{text}");
        }
    }
}
