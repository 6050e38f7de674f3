package decide

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A pod that extenders have a say in (Profile.Extended) is decided in two looks. The first finds the
// nodes that the rules let pass, and asks about them: a Consult goes out, and the attempt waits for
// its Advice while others go on. The second is made on what is true then, with the opinions: rules
// are asked again, extenders are not. A node that has come to pass meanwhile is none to choose, as
// nobody has been asked about it; if no other is left, there is another question.
//
// An opinion is as old as its question. An attempt that loses its node, or has to be decided again
// for another reason, asks again.

const (
	// MaxConsults is how many attempts of a shard wait for extenders at once: some, as most of the
	// time goes into waiting; few, as an extender may have been written for a caller that asks
	// about one pod after the other.
	MaxConsults = 8
	// maxQuestions is how often one attempt may ask. It asks more than once where it has been
	// nominated to a node that an extender turns down, where a race was lost, and where the nodes
	// that pass are others by the time of the answer.
	maxQuestions = 8
)

// notAsked is the reason that a node is not chosen without an opinion of it.
const notAsked = "node(s) that the extenders have not been asked about"

// Consult asks the extenders of a profile about a pod; the answer comes back as an Advice with its
// ID. Pod and nodes are shared, not to be changed.
type Consult struct {
	ID            uint64
	SchedulerName string
	Pod           *state.Pod
	Nodes         []*state.Node
}

// Advice is the answer to a Consult: an opinion of each node, by name. Err ends the attempt.
type Advice struct {
	ID       uint64
	Opinions map[string]placement.Opinion
	Err      error
}

// consulting is who waits for extenders.
type consulting struct {
	asked map[uint64]*attempt
	// questions counts them, for their IDs.
	questions uint64
}

// counsel is what an attempt has to do with extenders.
type counsel struct {
	// opinions is nil until there is an answer.
	opinions map[string]placement.Opinion
	// questions is how often it has asked; everywhere: not about the nominated node alone, as it has
	// now if alone is set.
	questions         int
	everywhere, alone bool
}

// extends adds to a query what extenders have said, or asks for all nodes that they have to be
// asked about.
func (c *Core) extends(q placement.Query, a *attempt) placement.Query {
	q.Everywhere = a.counsel.everywhere
	if a.counsel.opinions == nil {
		q.Limit = -1
		return q
	}
	q.Opinions = maps.Clone(a.counsel.opinions)
	for _, n := range c.view.Nodes() {
		if _, asked := q.Opinions[n.Node.Name]; !asked {
			q.Opinions[n.Node.Name] = placement.Opinion{Rejected: true, Reason: notAsked}
		}
	}
	return q
}

// consult has an attempt wait for what extenders say of nodes; false if they have been asked.
func (c *Core) consult(a *attempt, feasible []placement.Scored, out *Output) bool {
	switch {
	case a.counsel.opinions != nil:
		return false
	case len(c.consulting.asked) >= MaxConsults:
		c.deferred = append(c.deferred, a)
		return true
	case a.counsel.questions >= maxQuestions:
		c.fail(a, "the nodes that fit were others each time that the extenders had answered", out)
		return true
	}
	a.counsel.questions++
	a.counsel.alone = !a.counsel.everywhere && len(feasible) == 1 &&
		a.pod.Status().NominatedNodeName == feasible[0].Node.Node.Name
	c.consulting.questions++
	q := Consult{ID: c.consulting.questions, SchedulerName: a.pod.SchedulerName, Pod: a.pod}
	for _, s := range feasible {
		q.Nodes = append(q.Nodes, s.Node.Node)
	}
	c.consulting.asked[q.ID] = a
	out.Consults = append(out.Consults, q)
	return true
}

// reconsult has an attempt ask again that fits nowhere but, perhaps, on nodes that nobody has been
// asked about; and one that has asked about the nominated node alone, as upstream does.
func (c *Core) reconsult(a *attempt, d placement.Diagnosis) bool {
	if a.counsel.opinions == nil || !a.counsel.alone && d.Reasons()[notAsked] == 0 {
		return false
	}
	a.counsel.everywhere = true
	c.again(a)
	return true
}

// advised takes in an answer. Who asked may have been given back since.
func (c *Core) advised(advice Advice, out *Output) {
	a, waits := c.consulting.asked[advice.ID]
	if !waits {
		return
	}
	delete(c.consulting.asked, advice.ID)
	switch {
	case advice.Err != nil && a.counsel.alone:
		a.counsel.everywhere = true // as upstream, for which the nominated node is only a first try
	case advice.Err != nil:
		c.fail(a, advice.Err.Error(), out)
		return
	}
	a.counsel.opinions = advice.Opinions
	c.pending = append([]*attempt{a}, c.pending...)
}

// dismissConsults gives back whoever waits for extenders.
func (c *Core) dismissConsults() {
	for _, id := range slices.Sorted(maps.Keys(c.consulting.asked)) {
		c.giveBack(c.consulting.asked[id])
	}
	clear(c.consulting.asked)
}
