package reverts_test

// shards are fixes of how shards decide.
var shards = []revert{
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
		bug: 52, taken: "A decision is committed on whatever version the documents of its claims have.",
		edits: []edit{{
			ofShards + "/cross.go", `if v := &a.pick.volumes; !slices.Equal(v.basis, c.versionsOf(v.keys())) {`, `if false {`,
		}},
		fails: []failing{{ofShards, "TestStagedPickEndsWithItsClaimsDocument"}},
	},
	{
		bug: 59, taken: "A claim's document that was collected is taken for one that never was.",
		edits: []edit{{
			ofShards + "/volumes.go", `append(versions, c.ledger.Exclusive(key).Version())`,
			`append(versions, ledger.Version{Revision: c.ledger.Exclusive(key).Revision})`,
		}},
		fails: []failing{{ofShards, "TestStagedPickEndsWithItsClaimsDocument"}},
	},
}
