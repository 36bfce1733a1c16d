//! When refused requests should come again.

use std::collections::VecDeque;

/// The longest delay that clients are given, in seconds.
const LONGEST: u64 = 32;

/// Tracks rejections of a level per second, and the resulting delay for clients: it
/// doubles while many are rejected, and falls by a second while few are. As
/// kube-apiserver's tracker of dropped requests.
#[derive(Debug)]
pub struct RetryAfter {
    history: VecDeque<(u64, u64)>,
    second: u64,
    count: u64,
    answer: u64,
    raised: u64,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self {
            history: VecDeque::new(),
            second: 0,
            count: 0,
            answer: 1,
            raised: 0,
        }
    }
}

// === impl RetryAfter ===

impl RetryAfter {
    /// Notes that a request was refused in this second (of Unix time); in how many
    /// seconds it should come again.
    pub fn refused(&mut self, second: u64) -> u64 {
        if second == self.second {
            self.count += 1;
            return self.answer;
        }
        self.history.push_back((self.second, self.count));
        let kept = (2 * self.answer).min(LONGEST);
        while let Some(&(old, _)) = self.history.front()
            && self.second.saturating_sub(old) > kept
        {
            self.history.pop_front();
        }
        self.second = second;
        self.count = 1;
        self.update();
        self.answer
    }

    fn update(&mut self) {
        let now = self.second;
        let recent: u64 = self
            .history
            .iter()
            .rev()
            .take_while(|(second, _)| now.saturating_sub(*second) <= self.answer)
            .filter(|(second, _)| *second < now)
            .map(|(_, count)| count)
            .sum();
        let rested = now.saturating_sub(self.raised) >= self.answer;
        if rested && recent >= 3 * self.answer {
            self.answer = (2 * self.answer).min(LONGEST);
            self.raised = now;
        } else if recent < self.answer && self.answer > 1 {
            self.answer -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_while_many_are_refused_and_shrinks_when_few_are() {
        let mut after = RetryAfter::default();
        let mut told = Vec::new();
        for second in 100..200 {
            for _ in 0..200 {
                after.refused(second);
            }
            told.push(after.answer);
        }
        assert_eq!(told[0], 1);
        assert_eq!(*told.last().expect("some"), LONGEST);
        assert!(told.windows(2).all(|pair| pair[0] <= pair[1]), "{told:?}");
        for second in (300..).step_by(50).take(40) {
            after.refused(second);
        }
        assert_eq!(after.answer, 1);
        assert!(after.history.len() < 40);
    }
}
