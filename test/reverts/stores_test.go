package reverts_test

const (
	ofEtcd   = "pkg/ledger/etcd"
	ofIntake = "services/queue/intake"
)

// stores are fixes of what happens when a store is another one than before, or holds what nobody can read.
var stores = []revert{
	{
		bug: 36, taken: "Neither the identity of the store nor how far it is are looked at.",
		edits: []edit{{
			"pkg/ledger/etcd/continuity.go", `if h.GetClusterId() != c.mu.id || h.GetRevision() < seen {`, `if false {`,
		}},
		fails: []failing{{ofEtcd, "TestReplacedStoreIsDetected"}},
	},
	{
		bug: 36, taken: "What the store had at a revision is not compared with what was read of it.",
		edits: []edit{{
			"pkg/ledger/etcd/continuity.go", `if had != nil && had.ModRevision == witness.ModRevision && bytes.`,
			`if true || bytes.`,
		}},
		fails: []failing{{ofEtcd, "TestReplacedStoreIsDetected"}},
	},
	{
		bug: 36, taken: "A ledger that is empty, although there are facts, goes on.",
		edits: []edit{{
			"services/queue/decide/generation.go", `case g.Revision == 0 && !s.Claimed && s.FactsPublished:`, `case false:`,
		}},
		fails: []failing{{ofQueue, "TestLostLedgerBeginsTheNextGeneration"}},
	},
	{
		bug: 36, taken: "The history of the ledger is not compared with the ledger.",
		edits: []edit{
			{"services/queue/decide/generation.go", `case s.Recorded > s.Revision:`, `case false:`},
			{"services/queue/decide/generation.go", `case s.Contradicted:`, `case false && s.Contradicted:`},
		},
		fails: []failing{{ofQueue, "TestRestoredLedgerBeginsTheNextGeneration"}},
	},
	{
		bug: 36, taken: "What the history of the ledger says last is not compared with the ledger.",
		edits: []edit{
			{"services/queue/decide/generation.go", `case s.Contradicted:`, `case false && s.Contradicted:`},
		},
		fails: []failing{{ofQueue, "TestRestoredLedgerThatAdvancedBeginsTheNextGeneration"}},
	},
	{
		bug: 37, taken: "A reader of the facts gets past no record that it cannot read.",
		edits: []edit{{"pkg/state/follow/history.go", `h.hole = r.Sequence`, `return nil, err`}},
		fails: []failing{
			{"pkg/state/follow", "TestPoisonIsWaitedOut"}, {"services/binder/intake", "TestWhatCannotBeRead"},
			{"services/descheduler/intake", "TestWhatCannotBeRead"},
		},
	},
	{
		bug: 37, taken: "The queue that leads tells no facts anew behind one that cannot be read.",
		edits: []edit{{
			"services/queue/leader/logtail.go", `if _, there := facts.Position().Hole(); !there {`,
			`if _, there := facts.Position().Hole(); true || !there {`,
		}},
		fails: []failing{{ofQueue, "TestFactsThatCannotBeRead"}},
	},
	{
		bug: 37, taken: "The queue gets past no decision that it cannot read.",
		edits: []edit{{
			"services/queue/intake/follow.go", "r.unreadable.Record(record, err)\n\t\t\t\tcontinue",
			"r.next = record.Sequence\n\t\t\t\treturn err",
		}},
		fails: []failing{{ofQueue, "TestDecisionsThatCannotBeRead"}},
	},
	{
		bug: 39, taken: "Neither facts nor the ledger nor a watch that broke off tell that the API server went back.",
		edits: []edit{
			{"services/queue/leader/term.go", `evidence.WentBack = back.Error()`, ``},
			{"services/queue/generation/controller.go", `case ofNow && at < published:`,
				`case false && ofNow && at < published:`},
			{"services/queue/generation/controller.go", `case at < counted:`, `case false && at < counted:`},
		},
		fails: []failing{{ofQueue, "TestKubernetesThatWentBack"}},
	},
	{
		bug: 39, taken: "The API server is not compared with the ledger.",
		edits: []edit{{"services/queue/generation/controller.go", `case at < counted:`, `case false && at < counted:`}},
		fails: []failing{{ofQueue, "TestKubernetesThatWentBackWithoutFacts"}},
	},
	{
		bug: 55, taken: "Watches are resumed although the API server is not as far as it was.",
		edits: []edit{{
			ofIntake + "/resume.go", `if was := r.store.versionReached(); was > 0 {`,
			`if was := r.store.versionReached(); was > 0 && false {`,
		}},
		fails: []failing{{ofIntake, "TestAWatchIsNotResumedBeforeItsTime"}},
	},
	{
		bug: 55, taken: "Watches are resumed after refused connections.",
		edits: []edit{{"services/queue/intake/resume.go", `if err == nil && r.refused && !lists {`, `if false {`}},
		fails: []failing{{ofIntake, "TestAnAPIServerThatWasAwayIsListed"}},
	},
	{
		bug: 64, taken: "The API server is not compared with the facts that no picture was made of.",
		edits: []edit{{"services/queue/generation/controller.go", `case ofNow && at < published:`,
			`case false && ofNow && at < published:`}},
		fails: []failing{{ofQueue, "TestKubernetesThatWentBackWithoutASnapshotOfTheFacts"}},
	},
	{
		bug: 93, taken: "The queue goes on at the end of a log of decisions that has lost what was read.",
		edits: []edit{{
			"services/queue/intake/follow.go",
			`case r.next > 1 && (gap.Want < r.next || gap.Have <= r.next):`, `case false:`,
		}},
		fails: []failing{{ofIntake, "TestDecisionsThatTheLogHasLost"}},
	},
}
