package reverts_test

const ofQueue = "services/queue"

// queues are fixes of how the queue decides.
var queues = []revert{
	{
		bug: 42, taken: "In the repair of an epoch only a kind's marker counts as progress.",
		edits: []edit{{
			"pkg/state/position.go", `f.Op == events.OpProgress || p.progress[i] != 0 {`, `f.Op == events.OpProgress {`,
		}},
		fails: []failing{{"pkg/state", "TestProgress"}},
	},
	{
		bug: 61, taken: "The queue waits for facts up to a high-water of another generation.",
		edits: []edit{{"services/queue/decide/apply.go", `if in.Generation {`, `if false {`}},
		fails: []failing{{"services/queue/decide", "TestNoPodWaitsForAHighWaterOfAnotherGeneration"}},
	},
	{
		bug: 80, taken: "Pods that may preempt share a lane with pods that may not.",
		edits: []edit{{"services/queue/decide/waiting/lane.go", `if neverPreempts(e.Pod) {`, `if false {`}},
		fails: []failing{{"services/queue/decide", "TestAVerdictCoversThosePreemptingAlike"}},
	},
}

// others are fixes of the descheduler and of what services tell of themselves.
var others = []revert{
	{
		bug: 68, taken: "Facts are exported as they are.",
		edits: []edit{{
			"cmd/berth/internal/past/strip.go",
			`r.Data, err = state.StripFact(fact.Fact)`, `_, err = state.StripFact(fact.Fact)`,
		}},
		fails: []failing{{"cmd/berth/internal/past", "TestBundleHoldsNoEnvironment"}},
	},
	{
		bug: 68, taken: "The snapshot is exported as it is.",
		edits: []edit{{
			"cmd/berth/internal/past/export.go",
			`if data, err = state.StripSnapshot(data);`, `if _, err = state.StripSnapshot(data);`,
		}},
		fails: []failing{{"cmd/berth/internal/past", "TestBundleHoldsNoEnvironment"}},
	},
	{
		bug: 90, taken: "Pods that tolerate a cordoned node go to a closed one.",
		edits: []edit{{"pkg/placement/internal/nodes/simple.go", `(!f.tolerated || n.Node.Closed()) {`, `!f.tolerated {`}},
		fails: []failing{{"pkg/placement", "TestClosedNodesTakeNoPod"}},
	},
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
			{"pkg/descheduling/plan", "TestMovesRevealNothingOfAnotherNamespace"},
		},
	},
	{
		bug: 96, taken: "Pods count by their spec, also while they cannot be resized.",
		edits: []edit{{"pkg/descheduling/fit.go", `if v.upstream || taken`, `if true || taken`}},
		fails: []failing{{"pkg/descheduling", "TestResizedPodsCountAsForTheScheduler"}},
	},
	{
		bug: 99, taken: "Pods are looked at however many rules they have.",
		edits: []edit{{"pkg/descheduling/guard.go", `case manyRules(pod):`, `case false:`}},
		fails: []failing{{"pkg/descheduling", "TestPodsWithManyRulesStay"}},
	},
	{
		bug: 100, taken: "One namespace may have all evictions of a cycle.",
		edits: []edit{{"pkg/descheduling/plan/tenants.go", `return NamespaceShare`, `return ""`}},
		fails: []failing{{"pkg/descheduling/plan", "TestNamespacesShareACycle"}},
	},
	{
		bug: 101, taken: "Whoever may read metrics may do everything else.",
		edits: []edit{{
			"cmd/berth/internal/serve/tls.go", ` && method == http.MethodGet && slices.Contains(metricsPaths, path)`, ``,
		}},
		fails: []failing{{"cmd/berth/internal/serve", "TestOnlyAdministratorsChange"}},
	},
	{
		bug: 105, taken: "The series of unreadable records begin with the first one.",
		edits: []edit{{"pkg/telemetry/begin.go", `declare.Start(unreadable, []string{name}, streams)`, ``}},
		fails: []failing{{"pkg/telemetry", "TestFirstOccurrenceIsAnIncrease"}},
	},
	{
		bug: 106, taken: "Reservations that wait for volumes or devices have no more time than others.",
		edits: []edit{{"pkg/anomaly/entry.go", ` && !waitsForProvisioning(e):`, `:`}},
		fails: []failing{{"pkg/anomaly", "TestOverdue"}},
	},
}
