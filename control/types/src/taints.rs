//! Taints and what tolerates them.

/// A taint, of a node or of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaintRef<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its value.
    pub value: &'a str,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`; of devices also `None`.
    pub effect: &'a str,
}

/// A toleration of a pod, or of a request for devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TolerationRef<'a> {
    /// The taint's key; empty for any.
    pub key: &'a str,
    /// `Equal` (also when empty), `Exists`, `Lt` or `Gt`.
    pub operator: &'a str,
    /// The value that the operator compares with.
    pub value: &'a str,
    /// The taint's effect; empty for any.
    pub effect: &'a str,
}

impl TolerationRef<'_> {
    /// Whether the taint is tolerated, however long.
    #[must_use]
    pub fn tolerates(self, taint: TaintRef<'_>) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        // The API admits `Lt` and `Gt` with the gate `TaintTolerationComparisonOperators`.
        let compared = |than: fn(&i64, &i64) -> bool| {
            let (taint, own) = (decimal(taint.value), decimal(self.value));
            taint
                .zip(own)
                .is_some_and(|(taint, own)| than(&taint, &own))
        };
        match self.operator {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            "Lt" => compared(i64::lt),
            "Gt" => compared(i64::gt),
            _ => false,
        }
    }
}

/// An integer as people write it: no sign but a minus, no leading zeros.
fn decimal(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerates(toleration: [&str; 4], taint: [&str; 3]) -> bool {
        let [key, operator, value, effect] = toleration;
        let toleration = TolerationRef {
            key,
            operator,
            value,
            effect,
        };
        let [key, value, effect] = taint;
        toleration.tolerates(TaintRef { key, value, effect })
    }

    #[test]
    fn key_value_and_effect_must_fit() {
        let taint = ["disk", "slow", "NoSchedule"];
        for (toleration, expected) in [
            (["disk", "Equal", "slow", "NoSchedule"], true),
            (["disk", "", "slow", ""], true),
            (["disk", "Equal", "fast", ""], false),
            (["disk", "Exists", "", ""], true),
            (["", "Exists", "", ""], true),
            (["", "Equal", "slow", ""], true),
            (["", "Equal", "", ""], false),
            (["", "Exists", "", "NoExecute"], false),
            (["net", "Exists", "", ""], false),
            (["disk", "Roughly", "slow", ""], false),
        ] {
            assert_eq!(tolerates(toleration, taint), expected, "{toleration:?}");
        }
    }

    #[test]
    fn numbers_are_compared_when_both_are_canonical() {
        for (operator, own, taint, expected) in [
            ("Gt", "5", "6", true),
            ("Gt", "6", "6", false),
            ("Lt", "6", "5", true),
            ("Lt", "-1", "-2", true),
            ("Lt", "06", "5", false),
            ("Gt", "5", "+6", false),
            ("Gt", "", "6", false),
            ("Lt", "6", "x", false),
        ] {
            let toleration = ["k", operator, own, ""];
            let found = tolerates(toleration, ["k", taint, "NoSchedule"]);
            assert_eq!(found, expected, "{taint} {operator} {own}");
        }
    }
}
