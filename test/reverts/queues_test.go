package reverts_test

const ofQueue = "services/queue"

// queues are fixes of how the queue decides.
var queues = []revert{
	{
		bug: 80, taken: "Pods that may preempt share a lane with pods that may not.",
		edits: []edit{{"services/queue/internal/decide/lane.go", `if neverPreempts(e.pod) {`, `if false {`}},
		fails: []failing{{"services/queue/internal/decide", "TestAVerdictCoversThosePreemptingAlike"}},
	},
}

// others are fixes of the descheduler and of what services tell of themselves.
var others = []revert{
	{
		bug: 95, taken: "Owners are known by their UIDs alone.",
		edits: []edit{
			{"pkg/descheduling/plan/owners.go", `return ownerID{namespace, uid}`, `return ownerID{uid: uid}`},
			{"pkg/descheduling/plan/owners.go", `if !ok || object.Namespace != owner.namespace {`, `if !ok {`},
			{"pkg/descheduling/plan/owners.go", `ownerID{rs.Namespace, string(ref.UID)}`, `ownerID{uid: string(ref.UID)}`},
			{"pkg/descheduling/plan/owners.go", `ownerID{set.Namespace, string(ref.UID)}`, `ownerID{uid: string(ref.UID)}`},
			{"pkg/descheduling/plan/owners.go", `ownerID{set.Namespace, string(set.UID)}`, `ownerID{uid: string(set.UID)}`},
		},
		fails: []failing{
			{"pkg/descheduling/plan", "TestOwnersOfAnotherNamespaceDoNotCount"},
			{"pkg/descheduling/plan", "TestPodOfAnotherNamespaceHasNotComeBack"},
			{"pkg/descheduling/plan", "TestMovesTellNothingOfAnotherNamespace"},
		},
	},
	{
		bug: 105, taken: "The series of unreadable records begin with the first one.",
		edits: []edit{{"pkg/telemetry/begin.go", `unreadable.WithLabelValues(service, string(stream)).Add(0)`, ``}},
		fails: []failing{{"pkg/telemetry", "TestFirstOccurrenceIsAnIncrease"}},
	},
	{
		bug: 106, taken: "Reservations that wait for volumes or devices have no more time than others.",
		edits: []edit{{"pkg/anomaly/entry.go", ` && !waits(e):`, `:`}},
		fails: []failing{{"pkg/anomaly", "TestOverdue"}},
	},
}
