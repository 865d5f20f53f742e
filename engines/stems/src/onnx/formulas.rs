//! Stem formulas: how each stem is computed from a model's estimates.

use crate::Stem;

/// How each stem follows from a model's estimates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StemFormulas {
    pub(super) estimates: Vec<Stem>,
    /// The stems that the model separates itself, without remainders.
    pub(super) separable: Vec<Stem>,
    /// All stems that have a formula.
    pub(super) offered: Vec<Stem>,
}

/// A stem: one of the estimates, or the mix without some of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StemFormula {
    Estimate(usize),
    Without(Vec<usize>),
}

impl StemFormulas {
    /// The formulas of a model that makes these estimates, in this order.
    pub(super) fn new(estimates: Vec<Stem>) -> Self {
        let is_remainder = |stem: &Stem| matches!(stem, Stem::Other | Stem::Instrumental);
        let mut separable_stems: Vec<Stem> = estimates
            .iter()
            .copied()
            .filter(|s| !is_remainder(s))
            .collect();
        if separable_stems.is_empty() {
            // A lone instrumental also gives the vocals, as the remainder.
            let has_instrumental = estimates.contains(&Stem::Instrumental);
            separable_stems = vec![if has_instrumental {
                Stem::Vocals
            } else {
                Stem::Other
            }];
        }
        let mut formulas = Self {
            estimates,
            separable: separable_stems,
            offered: Vec::new(),
        };
        let offered = Stem::ALL
            .into_iter()
            .filter(|s| formulas.formula(*s).is_some());
        formulas.offered = offered.collect();
        formulas
    }

    pub(super) fn formula(&self, stem: Stem) -> Option<StemFormula> {
        let index_of = |stem| self.estimates.iter().position(|s| *s == stem);
        let is_remainder = |stem: Stem| matches!(stem, Stem::Other | Stem::Instrumental);
        let only_remainders = self.estimates.iter().all(|s| is_remainder(*s));
        match stem {
            Stem::Vocals if only_remainders => {
                index_of(Stem::Instrumental).map(|i| StemFormula::Without(vec![i]))
            }
            Stem::Instrumental if only_remainders => index_of(stem).map(StemFormula::Estimate),
            Stem::Instrumental => index_of(Stem::Vocals).map(|i| StemFormula::Without(vec![i])),
            // A graph's own `other` is not used: only as a remainder does it make the stems sum to
            // the mix.
            Stem::Other if !only_remainders => {
                let subtracted =
                    (0..self.estimates.len()).filter(|i| !is_remainder(self.estimates[*i]));
                Some(StemFormula::Without(subtracted.collect()))
            }
            // Whatever is not vocals.
            Stem::Other => index_of(Stem::Instrumental)
                .or(index_of(stem))
                .map(StemFormula::Estimate),
            _ => index_of(stem).map(StemFormula::Estimate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_follow_from_estimates() {
        use Stem::{Bass, Drums, Guitar, Instrumental, Other, Vocals};
        let formulas = |stems: &[Stem]| StemFormulas::new(stems.to_vec());
        let vocals = formulas(&[Vocals]);
        assert_eq!(
            (&vocals.separable[..], &vocals.offered[..]),
            (&[Vocals][..], &[Vocals, Other, Instrumental][..])
        );
        let instrumental = formulas(&[Instrumental]);
        assert_eq!(instrumental.separable, [Vocals]);
        assert_eq!(instrumental.offered, vocals.offered);
        assert_eq!(
            instrumental.formula(Vocals),
            Some(StemFormula::Without(vec![0]))
        );
        assert_eq!(instrumental.formula(Other), Some(StemFormula::Estimate(0)));
        let four = formulas(&[Drums, Bass, Other, Vocals]);
        assert_eq!(four.separable, [Drums, Bass, Vocals]);
        assert_eq!(
            four.formula(Other),
            Some(StemFormula::Without(vec![0, 1, 3]))
        );
        assert_eq!(
            four.formula(Instrumental),
            Some(StemFormula::Without(vec![3]))
        );
        assert_eq!(four.formula(Guitar), None);
        assert_eq!(formulas(&[Drums]).offered, [Drums, Other]);
        assert_eq!(formulas(&[Other]).offered, [Other]);
    }
}
