package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// keptPlaces are the placeholders that count.
type keptPlaces struct {
	// byOwner are their tokens, by the owner of the pods they are for.
	byOwner map[string][]ledger.Token
	owners  map[ledger.Token]string
	// taken are those whose place a staged pod takes.
	taken map[ledger.Token]bool
}

func newKeptPlaces(taken map[ledger.Token]bool) keptPlaces {
	if taken == nil {
		taken = map[ledger.Token]bool{}
	}
	return keptPlaces{byOwner: map[string][]ledger.Token{}, owners: map[ledger.Token]string{}, taken: taken}
}

// Kept is a place that is kept for the replacement of a pod that is moved.
type Kept struct {
	Node  *state.NodeInfo
	Entry ledger.Entry
}

// PlaceholderUID returns the UID under which a placeholder counts.
func PlaceholderUID(token ledger.Token) string { return placeholderPrefix + token.String() }

// KeptFor returns the places that a pod could take over: those for its owner and template, in its namespace,
// without those that a staged pod has taken. The places of pods that have left or are leaving come first, as the
// pod replaces one of those, then the places of pods that still stay and would not be evicted any more. Apart from
// that the order differs from pod to pod, so that the replacements of one owner do not all try the same place. The
// cost is negligible while no place is kept.
func (v *View) KeptFor(p *state.Pod) []Kept {
	if len(v.kept.byOwner) == 0 {
		return nil
	}
	r, ok := ReplacementOf(p)
	if !ok {
		return nil
	}
	var out []Kept
	for _, token := range v.kept.byOwner[r.Owner] {
		doc, e, ok := v.ledger.Plans().Owner(ledger.PlanID(token, false))
		if !ok || e.Replacement != r || e.Namespace != p.Namespace || v.kept.taken[token] {
			continue
		}
		if n, ok := v.Node(doc.NodeUID); ok {
			out = append(out, Kept{n, e})
		}
	}
	rank := func(k Kept) uint64 { return xxhash.Sum64String(p.UID + k.Entry.Token.String()) }
	slices.SortFunc(out, func(a, b Kept) int {
		return cmp.Or(v.stays(a)-v.stays(b), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Entry.Token, b.Entry.Token))
	})
	return out
}

// stays returns 1 for the place of a pod that shows no sign of leaving yet, else 0.
func (v *View) stays(k Kept) int {
	doc, victim, claimed := v.ledger.Plans().Victim(k.Entry.PodUID)
	if !claimed || doc.NodeUID == "" {
		return 0
	}
	if p, known := v.snapshot.Pod(victim.PodUID); known && !p.Deleting && !p.Terminal {
		return 1
	}
	return 0
}

// KeptOn returns the placeholders on a node for pods of lower priority than the given one, which a pod of that
// priority could oust. It omits those that a staged pod has taken.
func (v *View) KeptOn(nodeUID string, priority int32) []ledger.Entry {
	d, _ := v.ledger.Doc(nodeUID)
	var out []ledger.Entry
	for _, e := range d.Entries {
		if e.Role == ledger.RoleMove && e.Priority < priority && !v.kept.taken[e.Token] {
			out = append(out, e)
		}
	}
	return out
}

// StageInstead is Stage for a pod that takes a placeholder's room; the placeholder does not count while the pod is
// staged.
func (v *View) StageInstead(p *state.Pod, nodeName string, token ledger.Token) {
	v.kept.taken[token] = true
	v.recount(PlaceholderUID(token))
	v.staged[p.UID] = stagedPod{node: nodeName, pod: p, instead: token}
	v.recount(p.UID)
}

// giveBack makes a placeholder count again, if it still exists.
func (v *View) giveBack(token ledger.Token) {
	if token != 0 {
		delete(v.kept.taken, token)
		v.recount(PlaceholderUID(token))
	}
}

// noteKept updates the index of placeholders for what counts under a placeholder's UID.
func (v *View) noteKept(uid, node string, pod *state.Pod) {
	text, is := strings.CutPrefix(uid, placeholderPrefix)
	if !is {
		return
	}
	token, err := ledger.ParseToken(text)
	if err != nil {
		return
	}
	if owner, known := v.kept.owners[token]; known {
		rest := slices.DeleteFunc(v.kept.byOwner[owner], func(t ledger.Token) bool { return t == token })
		if v.kept.byOwner[owner] = rest; len(rest) == 0 {
			delete(v.kept.byOwner, owner)
		}
		delete(v.kept.owners, token)
	}
	if pod == nil || node == "" {
		return
	}
	_, e, _ := v.ledger.Plans().Owner(ledger.PlanID(token, false))
	owner := e.Replacement.Owner
	v.kept.owners[token] = owner
	v.kept.byOwner[owner] = append(v.kept.byOwner[owner], token)
}

// OwnerOf returns the UID of the object that recreates a pod when it is deleted: its controller or, as some
// controllers do not mark themselves as such, its only owner. It is empty if there is none. It is only as
// trustworthy as the namespace, because the pod's author writes it.
func OwnerOf(p *state.Pod) string {
	if p.Template == nil {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(p.Template); ref != nil {
		return string(ref.UID)
	}
	if len(p.Template.OwnerReferences) == 1 {
		return string(p.Template.OwnerReferences[0].UID)
	}
	return ""
}

// revisionLabels name the template that a pod was created from, within its owner: Deployments set the first,
// StatefulSets and DaemonSets the second.
var revisionLabels = []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey}

// ReplacementOf describes the pods that may replace this one: those of its owner and its template. If the owner
// does not name templates, they are the pods that run the same containers. (Whether a pod fits in the place is
// checked when it takes the place over.) It returns false if no owner recreates the pod.
func ReplacementOf(p *state.Pod) (ledger.Replacement, bool) {
	owner := OwnerOf(p)
	if owner == "" {
		return ledger.Replacement{}, false
	}
	for _, label := range revisionLabels {
		if revision := p.Template.Labels[label]; revision != "" {
			return ledger.Replacement{Owner: owner, Template: revision}, true
		}
	}
	d := xxhash.New()
	for i := range p.Template.Spec.Containers {
		c := &p.Template.Spec.Containers[i]
		_, _ = d.WriteString(c.Name + "=" + c.Image + "\n") // a hash never fails
	}
	return ledger.Replacement{Owner: owner, Template: "runs-" + ledger.Token(d.Sum64()).String()}, true
}
