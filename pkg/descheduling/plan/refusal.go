package plan

import "github.com/berth-scheduler/berth/pkg/descheduling"

// The reasons why a pod that a strategy picked, and no protection covers, is not moved.
const (
	UnderWay                                = descheduling.UnderWay
	CoolingDown        descheduling.Refusal = "cooling down"
	OwnerCoolingDown   descheduling.Refusal = "its owner is cooling down"
	OwnerBusy          descheduling.Refusal = "as many pods of its owner as may go at once are going"
	RollingOut         descheduling.Refusal = "its owner is rolling out"
	ReplacementUnready descheduling.Refusal = "its owner's last replacements are not ready"
	ExcludedNamespace  descheduling.Refusal = "namespace excluded"
	AnothersPlan       descheduling.Refusal = "it is claimed by another plan"
	OwnerRefused       descheduling.Refusal = "evictions of its owner's pods are refused again and again"
	NamespaceShare     descheduling.Refusal = "its namespace has its share of what may go in one cycle"
	Surplus            descheduling.Refusal = "its owner has more pods than it wants and would make no other"
	Unkeepable         descheduling.Refusal = "the ledger could keep no place for its replacement"
	OwnerReturned      descheduling.Refusal = "a replacement of its owner came back to the node it had left"
	MovedLately        descheduling.Refusal = "it was moved lately"
	NoBudget           descheduling.Refusal = "its disruption budget allows no disruption"
	ManyBudgets        descheduling.Refusal = "more than one disruption budget covers it"
	NoBetterPlace      descheduling.Refusal = "no node that takes it is a better one"
	WouldReturn        descheduling.Refusal = "the scheduler would put it where it is no better off"
)
