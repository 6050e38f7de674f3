package step

import (
	"github.com/berth-scheduler/berth/pkg/events"
)

// Effects collects the effects of one step, in the order in which they arise.
type Effects struct {
	out Output
	// abandoned are records of choices that were given up without a transaction. They come after those of lost
	// races.
	abandoned []events.Decision
}

// Commit sends a transaction.
func (e *Effects) Commit(c *Commit) { e.out.Commit = c }

// Decide appends a decision to the log.
func (e *Effects) Decide(d events.Decision) { e.out.Decisions = append(e.out.Decisions, d) }

// Lose records a race that an attempt has lost and continues after.
func (e *Effects) Lose(d events.Decision) { e.out.Lost = append(e.out.Lost, d) }

// Abandon records a choice that was never sent.
func (e *Effects) Abandon(d events.Decision) { e.abandoned = append(e.abandoned, d) }

// Report reports the end of an attempt, or of one try of it.
func (e *Effects) Report(a Attempt) { e.out.Attempts = append(e.out.Attempts, a) }

// ReportGang reports the end of an attempt at a whole gang.
func (e *Effects) ReportGang(g Gang) { e.out.Gangs = append(e.out.Gangs, g) }

// CountGang counts a gang that was decided about.
func (e *Effects) CountGang() { e.out.GangsTried++ }

// Consult asks extenders or plugins a question.
func (e *Effects) Consult(c Consult) { e.out.Consults = append(e.out.Consults, c) }

// Perform makes plugins act.
func (e *Effects) Perform(p PluginRequest) { e.out.Performs = append(e.out.Performs, p) }

// Plan reports a change of a plan.
func (e *Effects) Plan(r PlanReport) { e.out.Plans = append(e.out.Plans, r) }

// CountSearch counts a search for nodes: among the home nodes only, or among all.
func (e *Effects) CountSearch(home bool) {
	if home {
		e.out.SearchesHome++
	} else {
		e.out.SearchesAll++
	}
}

// CountBehind notes how many nodes could not be used because of their high-water marks.
func (e *Effects) CountBehind(nodes int) { e.out.Behind = nodes }

// Take returns the effects since the last call.
func (e *Effects) Take() Output {
	out := e.out
	out.Lost = append(out.Lost, e.abandoned...)
	*e = Effects{}
	return out
}
