package reverts_test

const (
	ofTxns     = "pkg/ledger/txns"
	ofReplica  = "pkg/ledger/replica"
	ofRegistry = "pkg/ledger/registry"
	ofShards   = "services/scheduler/decide"
	ofBinder   = "services/binder/decide"
)

// ledger are fixes of what transactions demand, and of the view that members have of the ledger.
var ledger = []revert{
	{
		bug: 31, taken: "The first document of a node no longer compares whom the node's name stands for.",
		edits: []edit{{
			ofTxns + "/replace.go",
			"if err := replaceAll(t, []ledger.Incarnation{first}, codec.EncodeIncarnation); err != nil {",
			"named, err := codec.EncodeIncarnation(first)\n" +
				"\t\tt.Puts = append(t.Puts, ledger.Put{Key: first.DocKey(), Value: named})\n" +
				"\t\tif err != nil {",
		}},
		fails: []failing{{ofShards, "TestNodeThatRegistersAgain"}, {"pkg/ledger/mem", "TestProtocol"}},
	},
	{
		bug: 31, taken: "Who admits a node leaves the documents of the nodes before alone.",
		edits: []edit{{ofTxns + "/t15_admit.go", "d.SupersededBy = a.NodeUID\n\t\tc.Docs = append(c.Docs, d)", ""}},
		fails: []failing{
			{ofShards, "TestNodeThatRegistersAgain"}, {ofShards, "TestShardsNeverOvercommitNodesThatRegisterAgain"},
		},
	},
	{
		bug: 31, taken: "The documents of the nodes before are not marked when another node gets their name.",
		edits: []edit{{ofTxns + "/t15_admit.go", `d.SupersededBy = a.NodeUID`, ``}},
		fails: []failing{{ofShards, "TestNodeThatRegistersAgain"}, {"pkg/ledger/mem", "TestProtocol"}},
	},
	{
		bug: 32, taken: "A namespace may have all terms of the registry.",
		edits: []edit{{ofRegistry + "/t11_register.go", `case d.Namespace != "" &&`, `case false && d.Namespace != "" &&`}},
		fails: []failing{
			{ofRegistry, "TestNamespacesShareTheRegistry"}, {ofShards, "TestNamespaceCannotTakeTheRegistry"},
		},
	},
	{
		bug: 34, taken: "An entry may be larger than any document has room for.",
		edits: []edit{{
			ofTxns + "/place.go", `if err := entries[i].CheckSize(); err != nil {`, `if err := error(nil); err != nil {`,
		}},
		fails: []failing{{ofShards, "TestHugePodFailsAlone"}, {ofTxns, "TestEntryThatNoDocumentHasRoomFor"}},
	},
	{
		bug: 35, taken: "Fields that this version does not know are not written back.",
		edits: []edit{{"pkg/ledger/codec/codec.go", `if fields != "" {`, `if false {`}},
		fails: []failing{{ofTxns, "TestFieldsOfALaterVersionAreKept"}},
	},
	{
		bug: 38, taken: "A document that does not exist is written whatever was collected since.",
		edits: []edit{{ofTxns + "/replace.go", `if revision != 0 {`, `if true {`}},
		fails: []failing{{"pkg/ledger/mem", "TestProtocol"}},
	},
	{
		bug: 41, taken: "Entries are placed without room for what they may grow by.",
		edits: []edit{{"pkg/ledger/size.go", `bytes+growth > MaxDocBytes {`, `bytes > MaxDocBytes {`}},
		fails: []failing{{ofTxns, "TestPlacedEntriesHaveRoomForAllThatFollows"}},
	},
	{
		bug: 48, taken: "The cause of a fence has no room.",
		edits: []edit{{"pkg/ledger/size.go", ` + causeBytes - numberBytes(34, uint64(e.Cause))`, ``}},
		fails: []failing{{ofTxns, "TestPlacedEntriesHaveRoomForAllThatFollows"}},
	},
	{
		bug: 48, taken: "The cause of a fence is not in the size of its entry.",
		edits: []edit{{"pkg/ledger/size.go", `numberBytes(34, uint64(e.Cause)) + numberBytes(35,`, `numberBytes(35,`}},
		fails: []failing{{ofTxns, "TestSizesAreThoseOfTheCodec"}},
	},
	{
		bug: 46, taken: "A hold is promoted on a node that lost its name.",
		edits: []edit{{ofTxns + "/t3_promote.go", `if p.Target.SupersededBy != "" {`, `if false {`}},
		fails: []failing{{ofTxns, "TestPromotionOnANodeThatLostItsName"}},
	},
	{
		bug: 47, taken: "A promotion replaces what the pod's claims get as a whole.",
		edits: []edit{{
			ofTxns + "/t3_promote.go", `= volumesAgain(e.Volumes, p.Volumes), devicesAgain(e.Devices, p.Devices)`,
			`= p.Volumes, p.Devices`,
		}},
		fails: []failing{{ofTxns, "TestPromotionKeepsFieldsOfALaterVersion"}},
	},
	{
		bug: 49, taken: "No document that a lost compare has shown is used before the watch shows it.",
		edits: []edit{{ofReplica + "/names.go", `is && kv.CreateRevision > n.docs.byNode[uid].Revision {`, `is {`}},
		fails: []failing{{ofReplica, "TestDocumentThatStoodIsPlacedIn"}, {ofShards, "TestPodsBehindALostRaceGoOn"}},
	},
	{
		bug: 58, taken: "Members act on facts of any epoch.",
		edits: []edit{{
			ofReplica + "/view.go",
			`return v.IsOpen() && (v.generation.FactsAfter == 0 || epoch > v.generation.FactsAfter)`, `return v.IsOpen()`,
		}},
		fails: []failing{
			{ofReplica, "TestFactsOfBeforeARestoreAreNotActedOn"},
			{ofShards, "TestNothingIsDecidedOnFactsOfBeforeARestore"},
		},
	},
	{
		bug: 60, taken: "The floor of another generation does not take the place of the one before.",
		edits: []edit{{ofReplica + "/documents.go", `if begins {`, `if begins && false {`}},
		fails: []failing{{ofReplica, "TestHighWatersGoWithTheirGeneration"}},
	},
	{
		bug: 67, taken: "A length that takes more bytes as an entry grows has no room.",
		edits: []edit{{
			"pkg/ledger/size.go", `{ return n + varint(uint64(bytes+n)) - varint(uint64(bytes)) }`, `{ return n }`,
		}},
		fails: []failing{{ofTxns, "TestPlacedEntriesHaveRoomForAllThatFollows"}},
	},
	{
		bug: 74, taken: "A list forgets what was learned of later revisions.",
		edits: []edit{{ofReplica + "/fold.go", `v.carryOver(&was)`, ``}},
		fails: []failing{{ofReplica, "TestListBehindAnOwnTransactionKeepsWhatThatHasPut"}},
	},
	{
		bug: 74, taken: "A list is compared with what was learned of later revisions.",
		edits: []edit{{
			ofReplica + "/fold.go", `kv.ModRevision < known && known <= b.Events.Revision`, `kv.ModRevision < known`,
		}},
		fails: []failing{{ofReplica, "TestListIsComparedWithWhatWasLearned"}},
	},
	{
		bug: 82, taken: "Pods that are claimed from another budget count as free.",
		edits: []edit{{"pkg/ledger/view/budgets.go", `if claimed {`, `if claimed && false {`}},
		fails: []failing{{"pkg/ledger/view", "TestRoomWithClaimsFromAnotherBudget"}},
	},
	{
		bug: 89, taken: "What reservations were decided on does not say how far Kubernetes was.",
		edits: []edit{{ofReplica + "/documents.go", `pods = max(pods, e.PodRV)`, ``}},
		fails: []failing{
			{ofReplica, "TestReservationsProveHowFarKubernetesWas"}, {ofQueue, "TestKubernetesThatWentBackWithoutFacts"},
		},
	},
	{
		bug: 119, taken: "Claims on different budgets of a namespace meet in no key.",
		edits: []edit{{ofTxns + "/t10_budget.go", `return b, b.UID != ""`, `return b, false`}},
		fails: []failing{{"pkg/ledger/view", "TestClaimsFromTwoBudgetsMeet"}},
	},
	{
		bug: 119, taken: "A claim waits neither for the watch nor for the facts that the claim before rests on.",
		edits: []edit{{
			ofTxns + "/t10_budget.go", `p < max(r.Doc.HW[ledger.KindBudget], r.Shared.HW[ledger.KindBudget]) || r.Ahead {`,
			`p < r.Doc.HW[ledger.KindBudget] {`,
		}},
		fails: []failing{{"pkg/ledger/view", "TestClaimsFromTwoBudgetsMeet"}},
	},
	{
		bug: 120, taken: "A budget that nothing was claimed from is claimed by its status alone.",
		edits: []edit{{
			"pkg/ledger/view/budgets.go", "r := b.byStatus(pdb)\n\tb.countPods(&r, pdb)",
			"r := b.byStatus(pdb)\n\tif r.Doc.Revision > 0 || len(r.Doc.HW) > 0 || " +
				"b.ledger.Plans().HasVictimsIn(pdb.Namespace) {\n" +
				"\t\tb.countPods(&r, pdb)\n\t}",
		}},
		fails: []failing{{"pkg/ledger/view", "TestRoomOfAStatusThatIsOld"}},
	},
}
