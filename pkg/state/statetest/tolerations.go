package statetest

import corev1 "k8s.io/api/core/v1"

// NumericToleration is a toleration that compares numbers (KEP-5471), and whether it covers a taint.
type NumericToleration struct {
	Name       string
	Toleration corev1.Toleration
	Taint      corev1.Taint
	Tolerated  bool
}

// NumericTolerations are cases on which every part that judges taints must agree: the rule of the shards, the binder's
// last check, the descheduler and the audit.
func NumericTolerations() []NumericToleration {
	of := func(
		name string, operator corev1.TolerationOperator, toleration, taint string, tolerated bool,
	) NumericToleration {
		return NumericToleration{
			Name:       name,
			Toleration: corev1.Toleration{Key: "sla", Operator: operator, Value: toleration},
			Taint:      corev1.Taint{Key: "sla", Value: taint, Effect: corev1.TaintEffectNoSchedule},
			Tolerated:  tolerated,
		}
	}
	return []NumericToleration{
		of("greater", corev1.TolerationOpGt, "950", "999", true),
		of("greater, by number and not by text", corev1.TolerationOpGt, "950", "1000", true),
		of("not greater", corev1.TolerationOpGt, "950", "900", false),
		of("equal is not greater", corev1.TolerationOpGt, "950", "950", false),
		of("less", corev1.TolerationOpLt, "950", "9", true),
		of("not less", corev1.TolerationOpLt, "950", "1000", false),
		of("equal is not less", corev1.TolerationOpLt, "950", "950", false),
		of("negative", corev1.TolerationOpGt, "-1", "0", true),
		of("taint is no number", corev1.TolerationOpGt, "950", "gold", false),
		of("toleration is no number", corev1.TolerationOpGt, "gold", "950", false),
		of("taint with leading zeros", corev1.TolerationOpGt, "5", "007", false),
		of("taint beyond 64 bits", corev1.TolerationOpGt, "5", "9223372036854775808", false),
		of("taint without a value", corev1.TolerationOpLt, "5", "", false),
	}
}
