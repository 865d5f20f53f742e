//! Tokens: the words of a prompt, in any script.

use std::iter;

/// The words between two stops, in lower case and without accents.
pub(super) type Clause = Vec<String>;

/// A prompt cut into clauses of words.
pub(super) struct TokenisedPrompt {
    pub(super) clauses: Vec<Clause>,
    /// The same words as the prompt spells them.
    pub(super) spellings: Vec<Vec<String>>,
}

impl TokenisedPrompt {
    /// Cuts a prompt into words.
    ///
    /// A clause has at most [`MAX_CLAUSE_WORDS`] words, which bounds the cost of looking at
    /// neighbours.
    ///
    /// A word is a run of letters and digits. "." and ":" between digits belong to the word ("2.5",
    /// "16:9"), a comma between digits is a decimal point ("2,5"), an apostrophe vanishes ("don't"
    /// is `dont`) unless it stands for a vowel of a French article ("d'une" is `d une`), a hyphen
    /// separates ("push-in"). Chinese and Japanese do not separate words, so each of their
    /// characters is one, and phrases join them.
    pub(super) fn new(prompt: &str) -> Self {
        let mut prompt_words = Self {
            clauses: vec![Clause::new()],
            spellings: vec![Vec::new()],
        };
        let mut word = String::new();
        let mut chars = prompt
            .chars()
            .filter(|c| !is_combining_mark(*c))
            .map(to_half_width)
            .peekable();
        let mut previous = ' ';
        while let Some(c) = chars.next() {
            let next = chars.peek().copied().unwrap_or(' ');
            let between_digits = previous.is_ascii_digit() && next.is_ascii_digit();
            let is_number = word.chars().all(|c| c.is_ascii_digit());
            if is_cjk(c) {
                prompt_words.push(&mut word);
                prompt_words.push(&mut c.to_string());
            } else if c.is_alphanumeric() || (matches!(c, '.' | ':') && between_digits) {
                word.push(c);
            } else if c == ',' && between_digits && is_number {
                word.push('.');
            } else if matches!(c, '\'' | '’') {
                // An apostrophe does not end a word: "don't" must arrive as one word, to be a
                // negation.
                if ELISIONS.contains(&word.to_lowercase().as_str()) {
                    prompt_words.push(&mut word);
                }
            } else {
                prompt_words.push(&mut word);
                if is_stop(c) {
                    prompt_words.start_clause();
                }
            }
            previous = c;
        }
        prompt_words.push(&mut word);
        prompt_words.clauses.retain(|clause| !clause.is_empty());
        prompt_words.spellings.retain(|words| !words.is_empty());
        prompt_words
    }

    fn start_clause(&mut self) {
        self.clauses.push(Clause::new());
        self.spellings.push(Vec::new());
    }

    /// Adds a word, if there is one, and leaves `word` empty.
    fn push(&mut self, word: &mut String) {
        if word.is_empty() {
            return;
        }
        if self
            .clauses
            .last()
            .is_none_or(|clause| clause.len() >= MAX_CLAUSE_WORDS)
        {
            self.start_clause();
        }
        let spelling = std::mem::take(word);
        if let (Some(clause), Some(spellings)) =
            (self.clauses.last_mut(), self.spellings.last_mut())
        {
            clause.push(folded(&spelling));
            spellings.push(spelling);
        }
    }
}

/// A word in lower case and without accents.
pub(super) fn folded(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        let plain = match c {
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => "a",
            'ç' => "c",
            'è' | 'é' | 'ê' | 'ë' => "e",
            'ì' | 'í' | 'î' | 'ï' => "i",
            'ñ' => "n",
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' => "o",
            'ù' | 'ú' | 'û' | 'ü' => "u",
            'ý' | 'ÿ' => "y",
            'ß' => "ss",
            'æ' => "ae",
            'œ' => "oe",
            other => {
                text.extend(iter::once(other).filter(|c| !is_combining_mark(*c)));
                continue;
            }
        };
        text.push_str(plain);
    }
    text
}

/// Whether a character is of a script that does not separate words.
pub(super) fn is_cjk(c: char) -> bool {
    is_han(c) || is_kana(c)
}

pub(super) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '々' | '〇')
}

pub(super) fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{309f}')
}

fn is_kana(c: char) -> bool {
    is_hiragana(c) || matches!(c, '\u{30a1}'..='\u{30fa}' | 'ー')
}

fn is_combining_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Digits, letters and stops of East Asian keyboards as their usual forms.
fn to_half_width(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        '\u{3000}' => ' ',
        other => other,
    }
}

fn is_stop(c: char) -> bool {
    matches!(
        c,
        ',' | '.'
            | ';'
            | ':'
            | '!'
            | '?'
            | '\n'
            | '('
            | ')'
            | '['
            | ']'
            | '|'
            | '—'
            | '–'
            | '。'
            | '、'
    )
}

/// French words that lose their vowel before another one.
const ELISIONS: [&str; 9] = ["d", "l", "j", "s", "n", "c", "m", "t", "qu"];

/// Longer than any sentence of direction.
const MAX_CLAUSE_WORDS: usize = 60;
