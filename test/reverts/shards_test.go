package reverts_test

// The packages that a shard's decisions are made in, besides ofShards.
const (
	ofAvoid     = "services/scheduler/decide/avoid"
	ofReserve   = "services/scheduler/decide/reserve"
	ofPreempt   = "services/scheduler/decide/preempt"
	ofCrossNode = "services/scheduler/decide/crossnode"
)

// shards are fixes of how shards decide.
var shards = []revert{
	{
		bug: 1, taken: "A decision is committed on whatever revision its node's document has.",
		edits: []edit{{ofReserve + "/reserve.go", `return now == p.Basis ||`, `return true || now == p.Basis ||`}},
		fails: []failing{
			{ofShards, "TestShardsNeverOvercommit"}, {ofShards, "TestPickedWhileAPromotionPicksAgain"},
		},
	},
	{
		bug: 3, taken: "Decisions stand although the registry of terms has moved.",
		edits: []edit{{ofReserve + "/reserve.go", `if n.Registry != r.Shard.Ledger.Terms().RegistryRevision() ||`, `if`}},
		fails: []failing{{ofShards, "TestShardsKeepRulesAboutOtherNodes"}},
	},
	{
		bug: 6, taken: "A rejection is told although pods that it has counted may be taken back.",
		edits: []edit{{
			ofPreempt + "/preempt.go",
			`if r.Withdrawn != p.life.Withdrawn || slices.ContainsFunc(r.Counted, p.shard.View.IsStaged) {`, `if false {`,
		}},
		fails: []failing{{ofShards, "TestRejectionWaitsForWhatItHasCounted"}},
	},
	{
		bug: 27, taken: "A token whose answer was lost is used for another nomination.",
		edits: []edit{{ofPreempt + "/nominate.go", ` || a.Doubtful || a.Losses`, ` || a.Losses`}},
		fails: []failing{{ofShards, "TestTokenIsNotUsedAgainAfterALostAnswer"}},
	},
	{
		bug: 27, taken: "A token whose answer was lost is used for another placement.",
		edits: []edit{{ofReserve + "/outcome.go", `case a.Doubtful:`, `case false:`}},
		fails: []failing{{ofShards, "TestTokenIsNotUsedAgainAfterALostAnswer"}},
	},
	{
		bug: 27, taken: "A nomination that may have been carried out fails if it is refused for its size.",
		edits: []edit{{ofPreempt + "/nominate.go", `if n.Attempt.Doubtful {`, `if false {`}},
		fails: []failing{{ofShards, "TestNominationThatMayHaveBeenCarriedOutDoesNotFail"}},
	},
	{
		bug: 30, taken: "A decision is committed in the epoch of the moment, and a reservation of its pod does not end it.",
		edits: []edit{
			{ofReserve + "/reserve.go", `held && epoch == a.Pick.Epoch && known`, `held && epoch > 0 && known`},
			{ofReserve + "/reserve.go", `&& !reserved && r.Shard.Usable()`, `&& (true || !reserved) && r.Shard.Usable()`},
			{
				ofReserve + "/batch.go", `b.place.Epochs[a.Offer.Partition] = a.Pick.Epoch`,
				`b.place.Epochs[a.Offer.Partition], _ = b.by.Shard.Holds(a.Offer.Partition)`,
			},
		},
		fails: []failing{
			{ofShards, "TestStagedPickEndsWithItsEpoch"}, {ofShards, "TestShardsNeverOvercommitAcrossTakeOvers"},
		},
	},
	{
		bug: 30, taken: "A decision of an earlier epoch is sent.",
		edits: []edit{{ofReserve + "/reserve.go", `held && epoch == a.Pick.Epoch && known`, `held && epoch > 0 && known`}},
		fails: []failing{{ofShards, "TestPickOfAnEarlierEpochIsGivenBack"}},
	},
	{
		bug: 30, taken: "A reservation of its pod does not end a decision.",
		edits: []edit{{
			ofReserve + "/reserve.go", `&& !reserved && r.Shard.Usable()`, `&& (true || !reserved) && r.Shard.Usable()`,
		}},
		fails: []failing{{ofShards, "TestReservedPodIsNotReservedAgain"}},
	},
	{
		bug: 30, taken: "Owners of partitions are learned from lost compares, ahead of the watch.",
		edits: []edit{
			{
				ofReplica + "/fold.go",
				`ofTerms(key) || strings.HasPrefix(key, roster.PrefixOwn) || strings.HasPrefix(key, ledger.PrefixInc`,
				`ofTerms(key) || strings.HasPrefix(key, ledger.PrefixInc`,
			},
			{"services/scheduler/decide/shard/state.go", `&& epoch <= s.Ledger.Revision() &&`, `&&`},
		},
		fails: []failing{{ofShards, "TestOwnershipIsLearnedFromTheWatchAlone"}, {ofReplica, "TestOwnersAreNotLearned"}},
	},
	{
		bug: 32, taken: "Terms are registered whether or not a transaction has room for what the pod needs.",
		edits: []edit{{ofCrossNode + "/terms.go", `err := n.Affordable(v)`, `err := error(nil)`}},
		fails: []failing{
			{ofShards, "TestPodThatNoTransactionHoldsLeavesNoTerm"},
			{ofShards, "TestPreemptorThatNoTransactionHoldsLeavesNoTerm"},
		},
	},
	{
		bug: 32, taken: "A pod may carry more terms than MaxPodTerms.",
		edits: []edit{
			{"services/scheduler/decide/attempt/attempt.go", `if n.Carried > registry.MaxPodTerms {`, `if false {`},
			{ofCrossNode + "/terms.go", ` && n.Carried <= registry.MaxPodTerms }`, ` }`},
		},
		fails: []failing{{ofShards, "TestPodThatNoTransactionHoldsLeavesNoTerm"}},
	},
	{
		bug: 32, taken: "Terms are registered whether or not a document has room for the pod's reservation.",
		edits: []edit{{ofCrossNode + "/terms.go", `err = x.storable(a, v)`, `err = nil`}},
		fails: []failing{{ofShards, "TestPodThatNoDocumentHoldsLeavesNoTerm"}},
	},
	{
		bug: 32, taken: "Terms are asked for whatever their size.",
		edits: []edit{{
			ofCrossNode + "/terms.go", `if err := registry.CheckTerm(term); err != nil {`, `if err := error(nil); err != nil {`,
		}},
		fails: []failing{{ofShards, "TestPodWithALargeRuleLeavesNoTerm"}},
	},
	{
		bug: 32, taken: "A term that is in use keeps all others from being dropped.",
		edits: []edit{{ofCrossNode + "/tidy.go", `len(idle) > 0 {`, `len(idle) > 0 && len(idle) == len(retiring) {`}},
		fails: []failing{{ofShards, "TestTermsAreDroppedOneByOne"}},
	},
	{
		bug: 34, taken: "The bytes of a transaction are not counted while its batch is made.",
		edits: []edit{{ofReserve + "/batch.go", `if len(b.attempts) > 0 && bytes+registry`, `if false && bytes+registry`}},
		fails: []failing{{ofShards, "TestBatchesEndWhereTheTransactionIsFull"}},
	},
	{
		bug: 40, taken: "A fence counts against its node whatever its cause.",
		edits: []edit{{ofAvoid + "/quarantine.go", `switch e.Cause {`, `switch ledger.FenceCause(0) {`}},
		fails: []failing{{ofShards, "TestFencesCountByWhatTheyAreAbout"}},
	},
	{
		bug: 40, taken: "What the owner of pods can bring about counts every time.",
		edits: []edit{{ofAvoid + "/quarantine.go", `if namespace != "" && slices.`, `if false && slices.`}},
		fails: []failing{{ofShards, "TestFencesCountByWhatTheyAreAbout"}},
	},
	{
		bug: 50, taken: "Rules are decided although a pod is bound to a node that the facts do not show.",
		edits: []edit{{
			"pkg/ledger/view/uncounted.go",
			"if v.promisedOnName(uid, c) {\n\t\t\treturn true", "if v.promisedOnName(uid, c) {\n\t\t\treturn false",
		}},
		fails: []failing{
			{"pkg/ledger/view", "TestPodsOnUnknownNodes"}, {ofShards, "TestPodOnANodeThatSeemsGoneCounts"},
		},
	},
	{
		bug: 52, taken: "A decision is committed on whatever version the documents of its claims have.",
		edits: []edit{{
			ofReserve + "/reserve.go", `if r.Shard.Claims.Changed(a.Pick.Volumes) {`, `if false {`,
		}},
		fails: []failing{{ofShards, "TestStagedPickEndsWithItsClaimsDocument"}},
	},
	{
		bug: 54, taken: "Pods that plugins may refuse are counted as placed.",
		edits: []edit{{
			ofCrossNode + "/rules.go",
			`if concern.CountsBatch() && (x.attempts.Count(attempt.Reserving) > 0 || x.slot.SeeksPlace()) {`, `if false {`,
		}},
		fails: []failing{{ofShards, "TestWhoCountsAPodThatPluginsRefuse"}},
	},
	{
		bug: 59, taken: "A claim's document that was collected is taken for one that never was.",
		edits: []edit{{
			"services/scheduler/decide/claims/supply.go", `append(versions, b.Ledger.Exclusives().Of(key).Version())`,
			`append(versions, ledger.Version{Revision: b.Ledger.Exclusives().Of(key).Revision})`,
		}},
		fails: []failing{{ofShards, "TestStagedPickEndsWithItsClaimsDocument"}},
	},
	{
		bug: 77, taken: "Decisions stand although a place that they counted as free has come back.",
		edits: []edit{{ofReserve + "/reserve.go", `if r.Life.PlaceReturnedSince(&a.Pick) {`, `if false {`}},
		fails: []failing{{ofShards, "TestDisplacedPlaceThatComesBackCountsAgain"}},
	},
}
