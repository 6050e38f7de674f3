package placement

import "github.com/berth-scheduler/berth/pkg/state"

func (x *preemption) crossNode(nodes []*state.NodeInfo) {}
