package descheduling

// Refusal is the reason why a pod that a strategy picked is not evicted. The set is closed; the empty value means
// that it may be evicted.
type Refusal string

// Protections of the policy's DefaultEvictor.
const (
	Terminating          Refusal = "terminating"
	TooLarge             Refusal = "too large for the log"
	NodeTooLarge         Refusal = "its node is too large for the log"
	TooManyRules         Refusal = "too many affinity terms, spread constraints or owners, or too long an owner's UID"
	NoEviction           Refusal = "annotated against eviction"
	GangMember           Refusal = "member of a gang"
	Mirror               Refusal = "mirror pod"
	Static               Refusal = "static pod"
	SystemCritical       Refusal = "system-critical priority"
	AboveThreshold       Refusal = "priority at or above the threshold"
	PriorityClassUnknown Refusal = "the threshold's priority class does not exist"
	Bare                 Refusal = "no owner"
	LocalStorage         Refusal = "local storage"
	DaemonSet            Refusal = "owned by a DaemonSet"
	VolumeClaims         Refusal = "protected volume claim"
	WithoutBudget        Refusal = "no disruption budget"
	ResourceClaims       Refusal = "resource claims"
	OtherLabels          Refusal = "labels do not match"
	FewReplicas          Refusal = "owner has too few replicas"
	TooYoung             Refusal = "too young"
	OtherNamespace       Refusal = "namespace labels do not match"
	FitsNowhere          Refusal = "fits no other node"
)

// AskedNow means that the pod has already been accepted in this run.
const AskedNow Refusal = "asked for in this cycle"

// UnderWay means that the pod's eviction was requested in an earlier cycle and has not ended. Strategies treat the
// pod as gone; otherwise they would pick another pod instead.
const UnderWay Refusal = "eviction under way"

// CycleFull means that the policy allows no more evictions in this cycle, independent of the limits that upstream
// has.
const CycleFull Refusal = "as many pods as may go in one cycle are going"

// Limits of the policy, in upstream's words: dashboards match them as values of the label result.
const (
	NodeLimit      Refusal = "maximum number of evicted pods per node reached"
	NamespaceLimit Refusal = "maximum number of evicted pods per namespace reached"
	TotalLimit     Refusal = "maximum number of evicted pods per a descheduling cycle reached"
)
