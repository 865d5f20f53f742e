//! Stem formulas: how each stem is computed from a model's estimates.

use crate::Stem;

/// How each stem follows from a model's estimates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StemFormulas {
    pub(super) estimates: Vec<Stem>,
    pub(super) separable: Vec<Stem>,
    pub(super) offered: Vec<Stem>,
}

/// A stem: one of the estimates, or the mix without some of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StemFormula {
    Estimate(usize),
    Without(Vec<usize>),
}

impl StemFormulas {
    /// For a model that makes these estimates, in this order.
    pub(super) fn new(estimates: Vec<Stem>) -> Self {
        let remainder = |stem: &Stem| matches!(stem, Stem::Other | Stem::Instrumental);
        let mut told_apart: Vec<Stem> = estimates
            .iter()
            .copied()
            .filter(|s| !remainder(s))
            .collect();
        if told_apart.is_empty() {
            // A lone instrumental also gives the vocals, as the remainder.
            let instrumental = estimates.contains(&Stem::Instrumental);
            told_apart = vec![if instrumental {
                Stem::Vocals
            } else {
                Stem::Other
            }];
        }
        let mut formulas = Self {
            estimates,
            separable: told_apart,
            offered: Vec::new(),
        };
        let offered = Stem::ALL
            .into_iter()
            .filter(|s| formulas.formula(*s).is_some());
        formulas.offered = offered.collect();
        formulas
    }

    pub(super) fn formula(&self, stem: Stem) -> Option<StemFormula> {
        let place = |stem| self.estimates.iter().position(|s| *s == stem);
        let is_rest = |stem: Stem| matches!(stem, Stem::Other | Stem::Instrumental);
        let only_rests = self.estimates.iter().all(|s| is_rest(*s));
        match stem {
            Stem::Vocals if only_rests => {
                place(Stem::Instrumental).map(|i| StemFormula::Without(vec![i]))
            }
            Stem::Instrumental if only_rests => place(stem).map(StemFormula::Estimate),
            Stem::Instrumental => place(Stem::Vocals).map(|i| StemFormula::Without(vec![i])),
            // A graph's own `other` is not used: only as a remainder does it make the stems sum to
            // the mix.
            Stem::Other if !only_rests => {
                let all = (0..self.estimates.len()).filter(|i| !is_rest(self.estimates[*i]));
                Some(StemFormula::Without(all.collect()))
            }
            // Whatever is not vocals.
            Stem::Other => place(Stem::Instrumental)
                .or(place(stem))
                .map(StemFormula::Estimate),
            _ => place(stem).map(StemFormula::Estimate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_follow_from_estimates() {
        use Stem::{Bass, Drums, Guitar, Instrumental, Other, Vocals};
        let of = |stems: &[Stem]| StemFormulas::new(stems.to_vec());
        let one = of(&[Vocals]);
        assert_eq!(
            (&one.separable[..], &one.offered[..]),
            (&[Vocals][..], &[Vocals, Other, Instrumental][..])
        );
        let rest = of(&[Instrumental]);
        assert_eq!(rest.separable, [Vocals]);
        assert_eq!(rest.offered, one.offered);
        assert_eq!(rest.formula(Vocals), Some(StemFormula::Without(vec![0])));
        assert_eq!(rest.formula(Other), Some(StemFormula::Estimate(0)));
        let four = of(&[Drums, Bass, Other, Vocals]);
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
        assert_eq!(of(&[Drums]).offered, [Drums, Other]);
        assert_eq!(of(&[Other]).offered, [Other]);
    }
}
