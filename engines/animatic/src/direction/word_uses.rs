//! Uses of a prompt's words: which of them something took, and which nothing did.

use std::ops::Range;

use super::phrases::{PhraseContext, PhraseMatch, is_measure};
use super::small_words::{
    is_participle, is_particle, is_small_character, is_small_cjk_word, is_small_word,
};
use super::tokens::{Clause, TokenisedPrompt, is_cjk, is_han, is_hiragana};
use super::vocabulary::VocabularyMatch;
use super::words::{
    is_camera_word, is_filler, is_format_word, is_joiner, is_negation, number_word, pace,
};
use crate::scene::SceneElement;

/// A word of a prompt that means something.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PromptWord {
    /// As the prompt spells it.
    pub(crate) spelling: String,
    pub(crate) taker: WordTaker,
}

/// What took a word.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WordTaker {
    Nothing,
    /// Direction, whatever is drawn.
    Direction,
    /// A drawn scene, if it shows one of these.
    Scene(Vec<SceneElement>),
}

/// The words that were found to mean something, while a prompt is read.
pub(super) struct WordUses {
    /// For each word of each clause.
    used: Vec<Vec<bool>>,
}

impl WordUses {
    pub(super) fn new(clauses: &[Clause]) -> Self {
        let unused = clauses.iter().map(|clause| vec![false; clause.len()]);
        Self {
            used: unused.collect(),
        }
    }

    /// Marks words of a clause as used.
    pub(super) fn mark(&mut self, clause_index: usize, words: Range<usize>) {
        let clause = self.used.get_mut(clause_index);
        if let Some(words) = clause.and_then(|clause| clause.get_mut(words)) {
            words.fill(true);
        }
    }

    /// Marks a phrase, and the words beside it that belong to it: "light" in "warm light".
    pub(super) fn mark_hit<T>(&mut self, hit: &PhraseMatch<'_, T>) {
        let end = hit.start + hit.length;
        self.mark(hit.clause_index, hit.start..end);
        let neighbours = match hit.context {
            PhraseContext::Always => &[],
            PhraseContext::Near(words) | PhraseContext::OnlyNear(words) => words,
        };
        for index in hit.start.saturating_sub(2)..hit.clause.len().min(end + 2) {
            let word = hit.clause[index].as_str();
            if neighbours.contains(&word) || is_measure(word) {
                self.mark(hit.clause_index, index..index + 1);
            }
        }
    }

    pub(super) fn mark_all<T>(&mut self, hits: &[PhraseMatch<'_, T>]) {
        for hit in hits {
            self.mark_hit(hit);
        }
    }

    /// The words of the prompt, without those that have no meaning of their own, such as articles.
    pub(super) fn words(
        mut self,
        prompt: &TokenisedPrompt,
        vocabulary: &[VocabularyMatch],
    ) -> Vec<PromptWord> {
        // What is denied is left out, which is what the prompt asks for.
        for hit in vocabulary {
            if !hit.asks_scene() && !hit.meanings.is_empty() {
                self.mark(hit.clause_index, hit.start..hit.start + hit.length);
            }
        }
        let mut words = Vec::new();
        for (clause_index, clause) in prompt.clauses.iter().enumerate() {
            let hits = vocabulary.iter();
            let own_hits = hits.filter(|hit| hit.clause_index == clause_index && hit.asks_scene());
            let mut scenery = vec![None; clause.len()];
            for hit in own_hits {
                if let Some(place) = scenery.get_mut(hit.start) {
                    *place = Some(hit);
                }
            }
            let reader = ClauseReader {
                clause,
                spellings: &prompt.spellings[clause_index],
                used: &self.used[clause_index],
                scenery,
            };
            let mut index = 0;
            while index < clause.len() {
                index = reader.read_at(index, &mut words);
            }
        }
        words
    }
}

/// Reads the words of a clause.
struct ClauseReader<'a> {
    clause: &'a Clause,
    spellings: &'a [String],
    used: &'a [bool],
    /// The phrases of scenery, where they begin.
    scenery: Vec<Option<&'a VocabularyMatch>>,
}

impl ClauseReader<'_> {
    /// Adds the word or the phrase that begins here; returns where the next one begins.
    fn read_at(&self, index: usize, words: &mut Vec<PromptWord>) -> usize {
        let mut push = |spelling: String, taker: WordTaker| {
            words.push(PromptWord { spelling, taker });
        };
        let spelling = &self.spellings[index];
        let is_cjk_word = |index: usize| self.spellings[index].starts_with(is_cjk);
        if self.used[index] {
            push(spelling.clone(), WordTaker::Direction);
            return index + 1;
        }
        if let Some(hit) = self.scenery[index] {
            let elements = hit.meanings.iter();
            let elements: Vec<SceneElement> = elements
                .filter_map(|meaning| meaning.scene_element())
                .collect();
            let end = index + hit.length;
            let spellings = &self.spellings[index..end];
            if is_cjk_word(index) {
                push(spellings.concat(), WordTaker::Scene(elements));
            } else {
                for spelling in spellings {
                    push(spelling.clone(), WordTaker::Scene(elements.clone()));
                }
            }
            return end;
        }
        if is_cjk_word(index) {
            let is_unread =
                |i: &usize| !self.used[*i] && self.scenery[*i].is_none() && is_cjk_word(*i);
            let end = index + (index..self.clause.len()).take_while(is_unread).count();
            for word in self.cjk_words(index..end) {
                push(word, WordTaker::Nothing);
            }
            return end;
        }
        if !self.is_small(index) {
            push(spelling.clone(), WordTaker::Nothing);
        }
        index + 1
    }

    fn is_small(&self, index: usize) -> bool {
        let word = self.clause[index].as_str();
        let before = &self.clause[index.saturating_sub(2)..index];
        let mut before = before.iter().rev().take_while(|word| !is_joiner(word));
        is_small_word(&self.spellings[index].to_lowercase())
            || is_participle(word)
            || word.starts_with(|c: char| c.is_ascii_digit())
            || number_word(word).is_some()
            || pace(word).is_some()
            || is_camera_word(word)
            || is_filler(word)
            || is_joiner(word)
            || is_format_word(word)
            || is_negation(word)
            // "No people": the prompt gets what it asks for.
            || before.any(|word| is_negation(word))
    }

    /// The words in a run of Chinese or Japanese characters, as far as they can be told without a
    /// dictionary.
    fn cjk_words(&self, run: Range<usize>) -> Vec<String> {
        let is_japanese = self
            .spellings
            .iter()
            .any(|word| word.starts_with(is_hiragana));
        let characters: Vec<char> = self.spellings[run.clone()]
            .iter()
            .flat_map(|word| word.chars())
            .collect();
        let mut words: Vec<String> = if is_japanese {
            let after = self
                .spellings
                .get(run.end)
                .and_then(|word| word.chars().next());
            japanese_words(&characters, after)
        } else {
            let words = characters.split(|c| is_small_character(*c));
            words.map(|word| word.iter().collect()).collect()
        };
        words.retain(|word| !word.is_empty() && !is_small_cjk_word(word));
        words
    }
}

/// Splits where the script changes. Hiragana between other words is grammar, and a Chinese
/// character before an ending in hiragana is the stem of a verb or an adjective.
fn japanese_words(characters: &[char], after: Option<char>) -> Vec<String> {
    let script = |c: char| (is_han(c), is_hiragana(c));
    let mut groups = characters
        .chunk_by(|a, b| script(*a) == script(*b))
        .peekable();
    let mut words = Vec::new();
    while let Some(group) = groups.next() {
        let next = groups
            .peek()
            .and_then(|group| group.first().copied())
            .or(after);
        let mut group = group.to_vec();
        let is_stem = group.first().is_some_and(|c| is_han(*c))
            && next.is_some_and(|c| is_hiragana(c) && !is_particle(c));
        if is_stem {
            group.pop();
        }
        let is_grammar = group.first().is_some_and(|c| is_hiragana(*c));
        if !group.is_empty() && !is_grammar {
            words.push(group.into_iter().collect());
        }
    }
    words
}
