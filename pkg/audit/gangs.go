package audit

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// gangLaws checks that the members of a gang start together (S8): at the revision that reserves one, at least minCount
// of them have a place, and all of them are in one domain of each topology key of their PodGroup. Source: KEP-4671.
type gangLaws struct {
	evidence *evidence
	placed   *placements
	topology *topologyLaws
	found    *findings
}

// groupHistory is all that a history knows about one PodGroup. Its spec is immutable, so one version is enough.
type groupHistory struct {
	name       string // namespace/name
	minCount   int    // 1 for the policy "basic"
	topology   []string
	born, gone moment
}

// groupOf returns the namespace and name of the PodGroup that a pod is a member of; false for a pod without one.
func groupOf(pod *corev1.Pod) (name string, member bool) {
	g := pod.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil || *g.PodGroupName == "" {
		return "", false
	}
	return pod.Namespace + "/" + *g.PodGroupName, true
}

// newGroup returns the history of a PodGroup, from its first version.
func newGroup(o *recording.PodGroup, born moment) *groupHistory {
	g := &groupHistory{name: o.Namespace + "/" + o.Name, minCount: 1, born: born}
	if gang := o.Spec.SchedulingPolicy.Gang; gang != nil {
		g.minCount = int(gang.MinCount)
	}
	if c := o.Spec.SchedulingConstraints; c != nil {
		for _, t := range c.Topology {
			g.topology = append(g.topology, t.Key)
		}
	}
	return g
}

// checkFresh checks the groups of which this revision has committed a reservation.
func (l *gangLaws) checkFresh() {
	fresh := map[string][]*placement{}
	for _, p := range l.placed.fresh {
		if p.pod == nil {
			continue
		}
		if name, member := groupOf(p.pod.last().pod); member {
			fresh[name] = append(fresh[name], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fresh)) {
		l.check(name, fresh[name])
	}
}

// check checks one group. A decision may rest on facts that are as old as the longest pause of the log: an object, or a
// member, that ended later than that before the revision may still have counted. Of several objects that the decision
// may have read, the one with the lowest minCount counts. A group whose object the history does not contain is not
// judged: the API server may not have served its kind to the recorder.
func (l *gangLaws) check(name string, fresh []*placement) {
	hi := uint64(0)
	for _, p := range fresh {
		hi = max(hi, l.placed.horizon(p))
	}
	past := l.evidence.timeline.lastMarkBeforePause(l.found.revision)
	var candidates []*groupHistory
	for _, g := range l.evidence.groups[name] {
		if g.born.possibleBy(hi) && !g.gone.certainBy(past.Objects) {
			candidates = append(candidates, g)
		}
	}
	if len(candidates) == 0 {
		return
	}
	l.found.report.Gangs++
	want := candidates[0].minCount
	for _, g := range candidates[1:] {
		want = min(want, g.minCount)
	}
	if n := l.count(name, hi, past); n < want {
		l.found.violate("S8", objects(fresh), "%d members of the gang %s have a place at this revision, want at least %d, "+
			"or none", n, name, want)
	}
	if len(l.evidence.groups[name]) == 1 {
		for _, key := range candidates[0].topology {
			l.checkDomain(name, key, fresh, hi)
		}
	}
}

// count returns how many members of a group may have a place: a reservation, or a node. A pod that the history does not
// contain may be one, in its namespace.
func (l *gangLaws) count(name string, hi uint64, past recording.Mark) (n int) {
	for _, p := range l.placed.unknown {
		if strings.HasPrefix(name, p.entry.Namespace+"/") && !p.endedAtMark(past) {
			n++
		}
	}
	for _, pod := range l.evidence.members[name] {
		if pod.leaving.certainBy(past.Objects) || pod.ended.certainBy(past.Objects) {
			continue
		}
		reserved := slices.ContainsFunc(l.placed.byPod[pod.uid], func(p *placement) bool { return !p.endedAtMark(past) })
		if reserved || pod.bound.possibleBy(hi) {
			n++
		}
	}
	return n
}

// checkDomain reports a new member in another domain than a member that certainly has a place. A member that had one
// when the recording began is left out: its group may have been another one of the same name. So is one on a node that
// may be gone, whose name may be another node's, and one that another client has bound.
func (l *gangLaws) checkDomain(name, key string, fresh []*placement, hi uint64) {
	var first *placement
	var chosen string
	for _, pod := range l.evidence.members[name] {
		for _, p := range l.placed.byPod[pod.uid] {
			domain, certain := l.topology.domain(p, key, hi)
			switch {
			case !certain || p.committed <= l.found.report.First || !l.stands(p, hi):
			case first == nil:
				first, chosen = p, domain
			case domain != chosen && (slices.Contains(fresh, p) || slices.Contains(fresh, first)):
				l.found.violate("S8", []string{p.object(), first.object(), nodeObject(p.node), nodeObject(first.node)},
					"is in %s=%s, and another member of the gang %s in %s", key, domain, name, chosen)
			}
		}
	}
}

// stands reports whether a placement is certainly its pod's place.
func (l *gangLaws) stands(p *placement, hi uint64) bool {
	elsewhere := p.pod.bound.possibleBy(hi) && (p.pod.node != p.node || p.pod.token != p.entry.Token)
	node := l.evidence.nodes[p.nodeUID]
	return !elsewhere && !p.pod.leaving.possibleBy(hi) && !p.ended(hi) && node != nil && !node.gone.possibleBy(hi)
}
