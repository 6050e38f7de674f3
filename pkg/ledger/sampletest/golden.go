package sampletest

import "github.com/berth-scheduler/berth/pkg/ledger"

// These are one document of each kind, with every field that has a golden form.
var (
	Claims = ledger.NodeDoc{NodeUID: "u", NodeName: "node-4", Revision: 5, Entries: []ledger.Entry{
		{
			PodUID: "2f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Namespace: "shop", Name: "batch-1", Role: ledger.RoleVictim,
			State: ledger.Evicting, PodRV: 12, Plan: "00000000000000aa", Budgets: []string{"pdb-1", "pdb-2"},
		},
		{
			PodUID: "3f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Role: ledger.RoleMove, Token: 0xab, Plan: "00000000000000ab",
			Replacement: ledger.Replacement{Owner: "replicaset-uid", Template: "6c9f7d"}, Requests: map[string]int64{"cpu": 1},
		},
	}}
	Budget = ledger.BudgetDoc{
		UID: "pdb-uid", Namespace: "shop", Name: "web", Revision: 6, HW: map[string]uint64{ledger.KindBudget: 7},
		Claims: []ledger.BudgetClaim{
			{PodUID: "2f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", PodRV: 12, Plan: "00000000000000aa"}, {PodUID: "text", PodRV: 13},
		},
	}
	Pool = ledger.ExclusiveDoc{
		Key: ledger.KeyPool("gpu.example.com", "rack-7"), Revision: 8, HW: map[string]uint64{ledger.KindPod: 9},
		Holders: []ledger.Holder{
			{PodUID: "2f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Token: 0xaa, NodeUID: "n", Items: []string{"d0", "d1"}},
			{PodUID: "text", Token: 0xab, NodeUID: "m", Items: []string{"d2"}},
		},
	}
	Plan = ledger.PlanRecord{
		ID: ledger.PlanID(0xaa, true), State: ledger.PlanReady, NodeUID: "n", PodUID: "p", Shard: "s", Victims: 300,
		Revision: 10,
	}
)
