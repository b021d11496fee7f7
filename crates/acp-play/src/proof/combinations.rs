//! Which variants are put together.

use std::collections::BTreeSet;

use acp_script::variants::Variant;

/// How many variants one agent of the covering set has at most: with more of them, one hides what another does.
const AT_ONCE: usize = 10;

/// Agents such that every two variants that go together are together in one of them.
pub fn covering(catalogue: &[Variant]) -> Vec<Vec<&Variant>> {
    let mut open: BTreeSet<(usize, usize)> = BTreeSet::new();
    for first in 0..catalogue.len() {
        for second in first + 1..catalogue.len() {
            if catalogue[first].goes_with(&catalogue[second]) {
                open.insert((first, second));
            }
        }
    }
    let mut agents = Vec::new();
    while let Some(&(first, second)) = open.iter().next() {
        let mut chosen = vec![first, second];
        while chosen.len() < AT_ONCE {
            let Some(next) = best(catalogue, &open, &chosen) else { break };
            chosen.push(next);
        }
        chosen.sort_unstable();
        for (at, a) in chosen.iter().enumerate() {
            for b in &chosen[at + 1..] {
                open.remove(&(*a, *b));
            }
        }
        agents.push(chosen.into_iter().map(|at| &catalogue[at]).collect());
    }
    agents
}

/// The variant that goes with all that are chosen and makes the most new pairs with them.
fn best(catalogue: &[Variant], open: &BTreeSet<(usize, usize)>, chosen: &[usize]) -> Option<usize> {
    let gain = |next: usize| {
        chosen.iter().filter(|known| open.contains(&((**known).min(next), (**known).max(next)))).count()
    };
    let all: Vec<&Variant> = chosen.iter().map(|at| &catalogue[*at]).collect();
    let mut candidates: Vec<(usize, usize)> = (0..catalogue.len())
        .filter(|next| !chosen.contains(next))
        .map(|next| (gain(next), next))
        .filter(|(gain, _)| *gain > 0)
        .collect();
    candidates.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    candidates.into_iter().map(|(_, next)| next).find(|next| {
        let together = all.iter().copied().chain([&catalogue[*next]]);
        acp_script::agent::Habits::with(together).is_ok()
    })
}

/// So many agents of two to six variants each, the same for the same seed.
pub fn random(catalogue: &[Variant], seed: u64, count: usize) -> Vec<Vec<&Variant>> {
    let mut dice = Dice(seed);
    let mut agents = Vec::new();
    while agents.len() < count && catalogue.len() > 1 {
        let size = 2 + dice.below(5);
        let mut chosen: Vec<&Variant> = Vec::new();
        for _ in 0..size {
            let next = &catalogue[dice.below(catalogue.len())];
            let together = chosen.iter().copied().chain([next]);
            if chosen.iter().all(|known| known.id != next.id)
                && acp_script::agent::Habits::with(together).is_ok()
            {
                chosen.push(next);
            }
        }
        if chosen.len() > 1 {
            agents.push(chosen);
        }
    }
    agents
}

/// Chance that is the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from((z ^ (z >> 31)) % bound).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_script::variants::catalogue;

    #[test]
    fn every_two_variants_that_go_together_are_together_once() {
        let agents = covering(catalogue());
        for (at, first) in catalogue().iter().enumerate() {
            for second in catalogue()[at + 1..].iter().filter(|second| first.goes_with(second)) {
                let both = |agent: &&Vec<&Variant>| {
                    [first, second].iter().all(|wanted| agent.iter().any(|it| it.id == wanted.id))
                };
                assert!(agents.iter().find(both).is_some(), "{} and {}", first.id, second.id);
            }
        }
        assert!(agents.iter().all(|agent| agent.len() <= AT_ONCE));
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed() {
        let names = |seed| -> Vec<Vec<String>> {
            let agents = random(catalogue(), seed, 5);
            agents.iter().map(|agent| agent.iter().map(|it| it.id.clone()).collect()).collect()
        };
        assert_eq!(names(7), names(7));
        assert_ne!(names(7), names(8));
    }
}
