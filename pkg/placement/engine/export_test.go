package engine

// Restart rebuilds everything that the engine keeps, as the engine does by itself when most of its numbers are no
// longer in use.
func (e *Engine) Restart() { e.restart() }
