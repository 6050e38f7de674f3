package sim

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// markNode gives a node marks for cluster autoscalers.
func (w *world) markNode(e effect.MarkNode) effect.Answered {
	n, ok := w.api.node(e.NodeUID)
	if !ok {
		return effect.Answered{Result: effect.Gone}
	}
	n = n.DeepCopy()
	if nodemark.Set(n, e.Marks) {
		w.report.Marks[e.Marks.String()]++
		w.api.put(events.KindNode, n)
	}
	return effect.Answered{Result: effect.Done}
}

// markedNode returns an error if a node still has marks although nothing is withheld or promised any more.
func (w *world) markedNode() error {
	for _, n := range w.api.nodes() {
		if text := nodemark.Text(n); text != "" {
			return fmt.Errorf("L10: node %s still has the marks %s", n.Name, text)
		}
	}
	return nil
}
