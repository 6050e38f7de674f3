package decide

// mayGoEarly lists a pod in backoff among those that may be offered early, if it may.
func (c *Core) mayGoEarly(e *entry) {
	switch {
	case e.early != nil || !e.mayGoEarly():
	case e.lane != nil:
		e.early = e.lane.back
		e.early.Put(e)
		c.lanes.moved[e.lane] = struct{}{}
	default:
		c.list(e)
	}
}

func (c *Core) notEarly(e *entry) {
	if e.early == nil {
		return
	}
	e.early.Drop(e)
	if e.early == c.bags.early[e.partition] {
		c.bags.earlyCount--
		if e.lane != nil {
			e.lane.listed--
			c.lanes.moved[e.lane] = struct{}{}
		}
	}
	e.early = nil
}
