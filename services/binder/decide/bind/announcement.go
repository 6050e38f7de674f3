package bind

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// maxAnnouncements is how many times the announcement of one reservation is tried.
const maxAnnouncements = 3

// announcement is the write of a reservation's node into the pod's status.nominatedNodeName while volumes or devices of
// the pod are prepared, which may take minutes. Autoscalers read there that the node is needed. Pods without such work
// are bound at once, and are not announced. Source: KEP-5278 (NominatedNodeNameForExpectation), bindingCycle in
// pkg/scheduler/schedule_one.go, and PreBindPreFlight of the plugins VolumeBinding and DynamicResources.
//
// Order: the entry is Committed → announcement → first write to a claim → Binding. The announcement has the
// precondition of the bind, and the bind names the version that it returns: a fence in between makes one of the two
// fail. A crash after it leaves a name that the next binder of the partition finds, and that the bind, or the fence,
// clears.
type announcement struct {
	// done means that it is written, or that it is not tried any more.
	done  bool
	tries int
}

// mustAnnounce reports whether the node has yet to be written into the pod's status before the bind.
func (r *reservation) mustAnnounce(env *environment) bool {
	lacking := func(v ledger.VolumePick) bool { return !v.HasVolume }
	if r.announcement.done || len(r.entry.Devices) == 0 && !slices.ContainsFunc(r.entry.Volumes, lacking) {
		return false
	}
	p, known, _ := env.Pod(r.key.Pod, 0)
	r.announcement.done = known && r.shows(p)
	return !r.announcement.done
}

// shows reports whether a pod is nominated to the node of the reservation.
func (r *reservation) shows(p *state.Pod) bool { return p.Status().NominatedNodeName == r.nodeName }

// announceOrBind sends the announcement, or the bind if there is nothing to announce.
func (r *reservation) announceOrBind(env *environment) {
	if !r.mustAnnounce(env) {
		r.bind(env)
		return
	}
	r.announcement.tries++
	r.begin(env, announcing)
	env.Emit(effect.Announce{
		Op: r.op, Pod: r.ref(), NodeName: r.nodeName, ResourceVersion: r.precondition.rv,
	})
}

// announced handles the answer to an announcement. As upstream, the pod is bound without it if it cannot be written.
func (r *reservation) announced(env *environment, in effect.Answered) {
	switch in.Result {
	case effect.Done:
		r.announcement.done = true
		r.precondition.rv = in.ResourceVersion // the space for the attempt is unchanged
	case effect.Unknown:
		r.announcement.done = in.Failed || r.announcement.tries >= maxAnnouncements
		if !r.announcement.done && !r.entry.Wanted {
			r.Pause(env.Now)
			return
		}
	case effect.Refused:
		r.announcement.done = true
	case effect.Conflict:
		// It may be that an earlier announcement without an answer has been carried out.
		r.announcement.done = in.Pod != nil && r.shows(in.Pod)
		r.startRefresh(env, in.Pod)
		return
	default:
		r.bindAnswered(env, in) // bound, or gone
		return
	}
	r.advance(env)
}
