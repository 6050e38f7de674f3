package placement

// Restart builds everything that the engine keeps anew, as it does by itself when most of
// its numbers mean nothing any more.
func (e *Engine) Restart() { e.restart() }
