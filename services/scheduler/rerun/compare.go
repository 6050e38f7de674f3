package rerun

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
)

// Difference is one value in which a record differs from the remade decision, with both values as text.
type Difference struct {
	What, Recorded, Remade string
}

// compare lists the differences. Of a nomination only the node is compared: the record's other values are those of
// the evaluation that found no node. Candidates and rejections are compared as well as the node, so that two errors
// that happen to lead to the same node show.
func compare(was, is events.Decision) []Difference {
	var out []Difference
	differ := func(what string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			out = append(out, Difference{what, fmt.Sprint(a), fmt.Sprint(b)})
		}
	}
	e, f := was.Evidence, is.Evidence
	// The remade attempt ended without evidence: it failed, or was given back.
	if f == nil {
		return []Difference{{"outcome", string(was.Kind), fmt.Sprintf("%s: %s", is.Kind, is.Message)}}
	}
	differ("configuration", fmt.Sprintf("%016x", e.Config), fmt.Sprintf("%016x", f.Config))
	if e.Basis.Way == evidence.WayHeld {
		differ("node", was.NodeName, is.NodeName)
		return out // the rest is about the evaluation of nodes before
	}
	if chosen(was) {
		differ("node", was.NodeName, is.NodeName)
		differ("feasible nodes", was.NodesFeasible, is.NodesFeasible)
		differ("nodes", was.NodesTotal, is.NodesTotal)
		differ("way", e.Basis.Way, f.Basis.Way)
		differ("scores of", len(e.ScoredBy), len(f.ScoredBy))
		differ("best nodes", e.Candidates, f.Candidates)
	} else {
		differ("outcome", was.Kind, is.Kind)
		differ("nodes", was.NodesTotal, is.NodesTotal)
		if !maps.Equal(was.Reasons, is.Reasons) && !maps.Equal(was.Reasons, events.ShortReasons(is.Reasons)) {
			differ("reasons", was.Reasons, is.Reasons)
		}
		if !begins(was.Message, is.Message) {
			differ("message", was.Message, is.Message)
		}
	}
	differ("class of the pod", e.Class, f.Class)
	differ("home nodes only", e.Home, f.Home)
	differ("nodes behind", e.Stale, f.Stale)
	if !maps.Equal(e.Rejected, f.Rejected) {
		differ("nodes rejected", e.Rejected, f.Rejected)
	}
	return out
}

// begins reports whether a recorded message begins with text, as far as the record has kept it: a shard appends
// sentences to the verdict after the decision (plugins, preemption), and the log cuts long messages.
func begins(recorded, text string) bool {
	kept, cut := events.Kept(recorded)
	return strings.HasPrefix(kept, text) || cut && strings.HasPrefix(text, kept)
}

// chosen reports whether a record is about a chosen node.
func chosen(d events.Decision) bool { return d.NodeName != "" && d.Evidence.Order > 0 }
