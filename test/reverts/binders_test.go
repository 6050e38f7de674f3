package reverts_test

const (
	ofCalls     = "services/binder/commit"
	ofBinds     = "services/binder/decide/bind"
	ofEvictions = "services/binder/decide/evict"
)

// binders are fixes of what binders do, and of their calls to the API server.
var binders = []revert{
	{
		bug: 13, taken: "An objection counts although it rests on facts of before the decision.",
		edits: []edit{{ofBinds + "/checker.go", `case r.older(p) || k.behind(n):`, `case r.older(p):`}},
		fails: []failing{{ofBinder, "TestObjectionsOfOldFactsAreWaitedOut"}},
	},
	{
		bug: 21, taken: "An objection counts although it rests on a pod of before the decision.",
		edits: []edit{{ofBinds + "/checker.go", `case p.Gated && !r.older(p):`, `case p.Gated:`}},
		fails: []failing{{ofBinder, "TestObjectionsToAnOlderPodAreWaitedOut"}},
	},
	{
		bug: 33, taken: "The fence changes the pod itself.",
		edits: []edit{{
			ofCalls + "/fences.go",
			"f.patch(ctx, e.Pod, body, \"status\")\n\tswitch {", "f.patch(ctx, e.Pod, body)\n\tswitch {",
		}},
		fails: []failing{{"services/binder", "TestFenceChangesNoPod"}},
	},
	{
		bug: 33, taken: "A refused fence is tried again in silence.",
		edits: []edit{{
			ofBinds + "/fence.go", "case effect.Refused:\n\t\tf.refused(env, in)",
			"case effect.Refused:\n\t\tf.task.Pause(env.Now)",
		}},
		fails: []failing{
			{"services/binder", "TestRefusedFenceIsReported"}, {ofBinder, "TestRefusedFenceIsReportedUntilItEnds"},
		},
	},
	{
		bug: 33, taken: "A fence counts as made although its mark was taken out.",
		edits: []edit{{
			ofCalls + "/fences.go", `case answer.Result == effect.Done && form.value(obj) != e.Value:`,
			`case false && form.value(obj) != e.Value:`,
		}},
		fails: []failing{{ofCalls, "TestMarkThatIsTakenOutIsNoFence"}},
	},
	{
		bug: 38, taken: "Documents of what is gone are not collected.",
		edits: []edit{{"services/binder/decide/document/collect.go", `if len(due) == 0 {`, `if true {`}},
		fails: []failing{{ofBinder, "TestDocumentsOfGoneObjectsAreCollected"}},
	},
	{
		bug: 40, taken: "A fence does not say what it is about.",
		edits: []edit{{ofBinds + "/fence.go", `case f.causeOverride != 0:`, `case false:`}},
		fails: []failing{{ofBinder, "TestFenceSaysWhatItIsAbout"}},
	},
	{
		bug: 57, taken: "The document of a claim is kept as long as it names a user.",
		edits: []edit{{ofTxns + "/t16_collect.go", "x, _ = FinishHolders(x, v)\n\t\t\tif len(", "if len("}},
		fails: []failing{{ofBinder, "TestDocumentsOfGoneObjectsAreCollected"}},
	},
	{
		bug: 63, taken: "A bind that was refused, and whose pod could not be read, may have been carried out.",
		edits: []edit{{ofBinds + "/reservation.go", `r.unsure = r.unsure || !in.Refused`, `r.unsure = true`}},
		fails: []failing{{ofBinder, "TestBindOfAnotherBinderIsReportedOnce"}},
	},
	{
		bug: 72, taken: "That the API server has dropped extendedResourceClaimStatus goes unnoticed.",
		edits: []edit{{
			ofCalls + "/mappings.go", `case obj.Status.ExtendedResourceClaimStatus == nil:`, `case false:`,
		}},
		fails: []failing{{ofCalls, "TestStatusNamesTheClaim"}},
	},
	{
		bug: 75, taken: "An eviction begins however long ago the ledger showed its claim.",
		edits: []edit{{
			ofEvictions + "/removal.go", `v.Now.Sub(vouched) <= v.Limits.EvictWithin`, `v.Now.Sub(vouched) >= 0`,
		}},
		fails: []failing{{ofBinder, "TestBinderCutOffFromTheLedgerBeginsNoEviction"}},
	},
	{
		bug: 85, taken: "No condition follows a refused annotation.",
		edits: []edit{{ofCalls + "/fences.go", `answer = f.mark(ctx, e, conditionMark{})`, ``}},
		fails: []failing{{ofCalls, "TestFenceOfFullAnnotations"}, {"services/binder", "TestFullAnnotationsAreFenced"}},
	},
	{
		bug: 86, taken: "That a pod is too large for etcd counts as no answer.",
		edits: []edit{{ofCalls + "/pods.go", `if tooLarge(err) {`, `if false {`}},
		fails: []failing{{ofCalls, "TestPodThatIsTooLargeIsRefused"}},
	},
	{
		bug: 86, taken: "That a webhook cannot be reached counts as no answer.",
		edits: []edit{{ofCalls + "/pods.go", `answer.Failed = true`, ``}},
		fails: []failing{{ofCalls, "TestWebhookThatCannotBeReachedFailsTheFence"}},
	},
	{
		bug: 88, taken: "A claim that was made again under its name is taken for the one before.",
		edits: []edit{{
			ofCalls + "/volumes.go", `case p.pick.ClaimUID != "" && string(claim.UID) != p.pick.ClaimUID:`, `case false:`,
		}},
		fails: []failing{{ofCalls, "TestClaimMadeAgainIsRefused"}},
	},
	{
		bug: 110, taken: "A claim does not say until when it is wanted.",
		edits: []edit{{ofEvictions + "/removal.go", `ended := v.Ended(r.claim.NotAfter)`, `ended := false`}},
		fails: []failing{{ofBinder, "TestOrderToEvictEnds"}, {ofBinder, "TestOrderEndsForWhoTakesItsClaimOver"}},
	},
	{
		bug: 110, taken: "An order claims its pod however late it is heard.",
		edits: []edit{{ofEvictions + "/order.go", `case v.Ended(e.order.NotAfter) &&`, `case false &&`}},
		fails: []failing{{ofBinder, "TestOrderThatHasEndedIsRefused"}},
	},
	{
		bug: 111, taken: "A waiting eviction is begun although its plan was given up, or its pod deleted.",
		edits: []edit{{
			ofEvictions + "/removal.go", `return !wanted || !r.needed(v) || !v.MayAct(uid) ||`,
			`return false && wanted || !v.MayAct(uid) ||`,
		}},
		fails: []failing{
			{ofBinder, "TestEvictionOfAPlanThatIsGivenUpIsMoot"}, {ofBinder, "TestNoPodIsEvictedForADeletedPod"},
		},
	},
	{
		bug: 112, taken: "An eviction stands whose claim is on its way as the ledger begins anew.",
		edits: []edit{{ofEvictions + "/evictor.go", `e.void = true`, ``}},
		fails: []failing{{ofBinder, "TestClaimOnItsWayIntoANewGenerationIsGivenUp"}},
	},
	{
		bug: 113, taken: "An eviction is sent whenever a worker comes to it.",
		edits: []edit{{ofCalls + "/evictions.go", `if timeFor(v.clock, e.NotAfter) <= 0 {`, `if false {`}},
		fails: []failing{{ofCalls, "TestWhatHasNoTimeLeftIsNotSent"}},
	},
	{
		bug: 113, taken: "An eviction on its way has as much time as any change.",
		edits: []edit{{
			ofCalls + "/evictions.go", `context.WithTimeout(ctx, timeFor(v.clock, e.NotAfter))`,
			`context.WithTimeout(ctx, changeTimeout)`,
		}},
		fails: []failing{{ofCalls, "TestEvictionEndsInItsTime"}},
	},
	{
		bug: 115, taken: "The removal of a gate is begun however late it is.",
		edits: []edit{{
			"services/binder/decide/gates/gate.go", `if u.over(g) || u.late(g) {`, `if u.over(g) {`,
		}},
		fails: []failing{{ofBinder, "TestGateIsRemovedInTimeOrNotAtAll"}},
	},
	{
		bug: 117, taken: "The outcome of an eviction is ignored while its claim is on its way.",
		edits: []edit{{
			ofEvictions + "/order.go", `v.evictions[key]; ok && !e.done {`,
			`v.evictions[key]; ok && !e.done && e.op == 0 {`,
		}},
		fails: []failing{{ofBinder, "TestOutcomeThatArrivesBeforeTheClaimIsMade"}},
	},
	{
		bug: 123, taken: "A request that came to nothing is forgotten.",
		edits: []edit{{ofEvictions + "/giveback.go", `fail = txns.DeclineEviction`, `_ = txns.DeclineEviction`}},
		fails: []failing{{ofBinder, "TestDeclinedRequestIsNotRepeated"}},
	},
	{
		bug: 124, taken: "A patch that clears a name is sent whatever the facts show by then.",
		edits: []edit{{
			"services/binder/decide/core.go", `c.settled(e.Pod.UID) || c.status.Moot(e)`, `c.settled(e.Pod.UID)`,
		}},
		fails: []failing{{ofBinder, "TestNameThatIsWrittenWhileTheClearingWaits"}},
	},
	{
		bug: 124, taken: "A patch that clears a name is bound to no version.",
		edits: []edit{{"services/binder/decide/podstatus/stale.go", `case !w.clears:`, `case true:`}},
		fails: []failing{{ofBinder, "TestNameThatIsWrittenWhileTheClearingWaits"}},
	},
}
