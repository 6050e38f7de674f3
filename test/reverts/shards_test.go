package reverts_test

// shards are fixes of how shards decide.
var shards = []revert{
	{
		bug: 1, taken: "A decision is committed on whatever revision its node's document has.",
		edits: []edit{{ofShards + "/flight.go", `return now == p.basis ||`, `return true || now == p.basis ||`}},
		fails: []failing{
			{ofShards, "TestShardsNeverOvercommit"}, {ofShards, "TestPickedWhileAPromotionPicksAnew"},
		},
	},
	{
		bug: 3, taken: "Decisions stand although the registry of terms has moved.",
		edits: []edit{{ofShards + "/cross.go", `if n.registry != c.ledger.TermRegistryRevision() ||`, `if`}},
		fails: []failing{{ofShards, "TestShardsKeepRulesAboutOtherNodes"}},
	},
	{
		bug: 6, taken: "A rejection is told although pods that it has counted may be taken back.",
		edits: []edit{{
			ofShards + "/rejection.go",
			`if r.withdrawn != c.cross.withdrawn || slices.ContainsFunc(r.counted, c.view.IsStaged) {`, `if false {`,
		}},
		fails: []failing{{ofShards, "TestRejectionWaitsForWhatItHasCounted"}},
	},
	{
		bug: 27, taken: "A token whose answer was lost is used for another nomination.",
		edits: []edit{{ofShards + "/deed.go", ` || a.doubtful || a.losses`, ` || a.losses`}},
		fails: []failing{{ofShards, "TestTokenIsNotUsedAgainAfterALostAnswer"}},
	},
	{
		bug: 27, taken: "A token whose answer was lost is used for another placement.",
		edits: []edit{{ofShards + "/flight.go", `case a.doubtful:`, `case false:`}},
		fails: []failing{{ofShards, "TestTokenIsNotUsedAgainAfterALostAnswer"}},
	},
	{
		bug: 27, taken: "A nomination that may have been carried out fails if it is refused for its size.",
		edits: []edit{{ofShards + "/nominate.go", `if n.attempt.doubtful {`, `if false {`}},
		fails: []failing{{ofShards, "TestNominationThatMayHaveBeenCarriedOutDoesNotFail"}},
	},
	{
		bug: 30, taken: "A decision is committed in the epoch of the moment, and a reservation of its pod does not end it.",
		edits: []edit{
			{ofShards + "/flight.go", `held && epoch == a.pick.epoch && known`, `held && epoch > 0 && known`},
			{ofShards + "/flight.go", `&& !reserved && c.usable()`, `&& (true || !reserved) && c.usable()`},
			{
				ofShards + "/batch.go", `b.place.Epochs[a.offer.Partition] = a.pick.epoch`,
				`b.place.Epochs[a.offer.Partition], _ = b.core.holds(a.offer.Partition)`,
			},
		},
		fails: []failing{
			{ofShards, "TestStagedPickEndsWithItsEpoch"}, {ofShards, "TestShardsNeverOvercommitAcrossTakeOvers"},
		},
	},
	{
		bug: 30, taken: "A decision of an earlier epoch is sent.",
		edits: []edit{{ofShards + "/flight.go", `held && epoch == a.pick.epoch && known`, `held && epoch > 0 && known`}},
		fails: []failing{{ofShards, "TestPickOfAnEarlierEpochIsGivenBack"}},
	},
	{
		bug: 30, taken: "A reservation of its pod does not end a decision.",
		edits: []edit{{ofShards + "/flight.go", `&& !reserved && c.usable()`, `&& (true || !reserved) && c.usable()`}},
		fails: []failing{{ofShards, "TestReservedPodIsNotReservedAgain"}},
	},
	{
		bug: 30, taken: "Owners of partitions are learned from lost compares, ahead of the watch.",
		edits: []edit{
			{
				"pkg/ledger/view_apply.go",
				`ofTerms(key) || strings.HasPrefix(key, PrefixOwn) || strings.HasPrefix(key, PrefixInc`,
				`ofTerms(key) || strings.HasPrefix(key, PrefixInc`,
			},
			{ofShards + "/core.go", `&& epoch <= c.ledger.Revision() &&`, `&&`},
		},
		fails: []failing{{ofShards, "TestOwnershipIsLearnedFromTheWatchAlone"}, {ofLedger, "TestOwnersAreNotLearned"}},
	},
	{
		bug: 32, taken: "Terms are registered whether or not a transaction has room for what the pod needs.",
		edits: []edit{{ofShards + "/register.go", `err := n.affordable(v)`, `err := error(nil)`}},
		fails: []failing{
			{ofShards, "TestPodThatNoTransactionHoldsLeavesNoTerm"},
			{ofShards, "TestPreemptorThatNoTransactionHoldsLeavesNoTerm"},
		},
	},
	{
		bug: 32, taken: "A pod may carry more terms than MaxPodTerms.",
		edits: []edit{
			{ofShards + "/register.go", `if n.carried > ledger.MaxPodTerms {`, `if false {`},
			{ofShards + "/register.go", ` && n.carried <= ledger.MaxPodTerms {`, ` {`},
		},
		fails: []failing{{ofShards, "TestPodThatNoTransactionHoldsLeavesNoTerm"}},
	},
	{
		bug: 32, taken: "Terms are registered whether or not a document has room for the pod's reservation.",
		edits: []edit{{ofShards + "/register.go", `err = c.storable(a, v)`, `err = nil`}},
		fails: []failing{{ofShards, "TestPodThatNoDocumentHoldsLeavesNoTerm"}},
	},
	{
		bug: 32, taken: "Terms are asked for whatever their size.",
		edits: []edit{{
			ofShards + "/register.go", `if err := ledger.CheckTerm(term); err != nil {`, `if err := error(nil); err != nil {`,
		}},
		fails: []failing{{ofShards, "TestPodWithALargeRuleLeavesNoTerm"}},
	},
	{
		bug: 32, taken: "A term that is in use keeps all others from being dropped.",
		edits: []edit{{ofShards + "/tidy.go", `len(idle) > 0 {`, `len(idle) > 0 && len(idle) == len(retiring) {`}},
		fails: []failing{{ofShards, "TestTermsAreDroppedOneByOne"}},
	},
	{
		bug: 34, taken: "The bytes of a transaction are not counted while its batch is made.",
		edits: []edit{{ofShards + "/batch.go", `if len(b.attempts) > 0 && bytes+registry`, `if false && bytes+registry`}},
		fails: []failing{{ofShards, "TestBatchesEndWhereTheTransactionIsFull"}},
	},
	{
		bug: 40, taken: "A fence counts against its node whatever its cause.",
		edits: []edit{{ofShards + "/trust.go", `switch e.Cause {`, `switch ledger.FenceCause(0) {`}},
		fails: []failing{{ofShards, "TestFencesCountByWhatTheyAreAbout"}},
	},
	{
		bug: 40, taken: "What the owner of pods can bring about counts every time.",
		edits: []edit{{ofShards + "/trust.go", `if namespace != "" && slices.`, `if false && slices.`}},
		fails: []failing{{ofShards, "TestFencesCountByWhatTheyAreAbout"}},
	},
	{
		bug: 50, taken: "Rules are decided although a pod is bound to a node that the facts do not show.",
		edits: []edit{{
			"pkg/ledger/view/unknown_nodes.go",
			"if v.vouched(uid, c) {\n\t\t\treturn true", "if v.vouched(uid, c) {\n\t\t\treturn false",
		}},
		fails: []failing{
			{"pkg/ledger/view", "TestPodsOnUnknownNodes"}, {ofShards, "TestPodOnANodeThatSeemsGoneCounts"},
		},
	},
	{
		bug: 52, taken: "A decision is committed on whatever version the documents of its claims have.",
		edits: []edit{{
			ofShards + "/cross.go", `if v := &a.pick.volumes; !slices.Equal(v.basis, c.versionsOf(v.keys())) {`, `if false {`,
		}},
		fails: []failing{{ofShards, "TestStagedPickEndsWithItsClaimsDocument"}},
	},
	{
		bug: 54, taken: "Pods that plugins may refuse are counted as placed.",
		edits: []edit{{
			ofShards + "/cross.go",
			`if concern.CountsBatch() && (len(c.performing.reserving) > 0 || c.seeksPlace()) {`, `if false {`,
		}},
		fails: []failing{{ofShards, "TestWhoCountsAPodThatPluginsRefuse"}},
	},
	{
		bug: 59, taken: "A claim's document that was collected is taken for one that never was.",
		edits: []edit{{
			ofShards + "/volumes.go", `append(versions, c.ledger.Exclusive(key).Version())`,
			`append(versions, ledger.Version{Revision: c.ledger.Exclusive(key).Revision})`,
		}},
		fails: []failing{{ofShards, "TestStagedPickEndsWithItsClaimsDocument"}},
	},
	{
		bug: 77, taken: "Decisions stand although a place that they counted as free has come back.",
		edits: []edit{{ofShards + "/cross.go", `if c.plans.returned.last[a.pick.nodeUID] > a.pick.returned {`, `if false {`}},
		fails: []failing{{ofShards, "TestOustedPlaceThatComesBackCountsAgain"}},
	},
}
