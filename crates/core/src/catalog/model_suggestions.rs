//! Suggestions for a model's name that does not exist.

use super::Catalog;

impl Catalog {
    /// What to tell a caller who names a model that does not exist.
    pub fn no_model_message(&self, name: &str) -> String {
        /// Longest name for which a similar one is searched, and number of letters that may be
        /// wrong.
        const MAX_LENGTHS: (usize, usize) = (60, 3);
        let ids = self.models.iter().map(|model| model.id.as_str());
        let distances = ids.map(|id| (strsim::levenshtein(id, &name.to_lowercase()), id));
        let is_short = name.len() <= MAX_LENGTHS.0;
        let similar = distances.filter(|(distance, _)| is_short && *distance <= MAX_LENGTHS.1);
        match similar.min() {
            Some((_, id)) => format!(
                "There is no model {name:?}. Did you mean {id:?}? See /v1/models for all models."
            ),
            None => format!("There is no model {name:?}. See /v1/models for all models."),
        }
    }
}
