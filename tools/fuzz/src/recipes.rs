//! Recipes: text that an operator writes or pastes.

use crate::FuzzTarget;
use crate::answers;
use crate::shipped::{SHIPPED, read};

pub(crate) const RECIPE: FuzzTarget = FuzzTarget {
    name: "recipe",
    run: recipe,
    seeds,
    cases: 600,
};

/// Checks that a text either is rejected or is a recipe that can submit orders and read any answer.
fn recipe(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(adapter) = read(&text) {
        answers::exercise(&*adapter, 200, bytes);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    SHIPPED.map(|text| text.as_bytes().to_vec()).into()
}
