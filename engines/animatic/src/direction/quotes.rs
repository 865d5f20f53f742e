//! Quoted words, which are shown as titles, separated from the direction.

/// The prompt without its quoted words, and those words, in order.
///
/// Quotes may be straight or in the style of several languages. One that is not closed stays in the
/// text; one without a letter or digit is dropped.
pub(super) fn extract_quotes(prompt: &str) -> (String, Vec<String>) {
    let mut rest = String::with_capacity(prompt.len());
    let mut quotes = Vec::new();
    let mut text = prompt;
    while let Some((start, open)) = text.char_indices().find(|(_, c)| closing(*c).is_some()) {
        let inside = &text[start + open.len_utf8()..];
        let end = closing(open).and_then(|close| inside.find(close));
        rest.push_str(&text[..start]);
        // A quote that is never closed is a slip, or an inch mark: the rest of the prompt stays
        // direction.
        let Some(end) = end else {
            rest.push_str(&text[start..]);
            return (rest, quotes);
        };
        let quote = inside[..end]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        if quote.chars().any(char::is_alphanumeric) {
            // A quote separates the words around it.
            rest.push_str(", ");
            quotes.push(quote);
        }
        let close = inside[end..].chars().next().map_or(1, char::len_utf8);
        text = &inside[end + close..];
    }
    rest.push_str(text);
    (rest, quotes)
}

/// The characters that close a quote opened by this one.
fn closing(open: char) -> Option<&'static [char]> {
    // Single quotes never open a title, because they are apostrophes ("it's"). People mix styles,
    // so a quote may end in another style than it began. German books write guillemets the other
    // way round.
    Some(match open {
        '"' => &['"'],
        '“' => &['”', '“', '"'],
        '”' => &['”'],
        '„' => &['“', '”'],
        '«' => &['»'],
        '»' => &['«'],
        '「' => &['」'],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_of_every_shape_are_taken_out() {
        for (prompt, rest, quotes) in [
            (
                "pan left \"Night Train\"",
                "pan left , ",
                vec!["Night Train"],
            ),
            (
                "“One”, then „Zwei“ and «Trois»",
                ", , then ,  and , ",
                vec!["One", "Zwei", "Trois"],
            ),
            ("it's a dog's life", "it's a dog's life", vec![]),
            ("a 6\" pipe", "a 6\" pipe", vec![]),
            ("\"  \" static", " static", vec![]),
            ("\"two\n lines\"", ", ", vec!["two lines"]),
        ] {
            let (text, titles) = extract_quotes(prompt);
            assert_eq!(
                (text.as_str(), titles),
                (rest, quotes.iter().map(ToString::to_string).collect()),
                "{prompt}"
            );
        }
    }
}
