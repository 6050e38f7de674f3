package engine

// Restart rebuilds everything that the engine keeps, as the engine does by itself when most of its numbers are no
// longer in use.
func (e *Engine) Restart() { e.restart() }

// Moves returns how many changes the journal has recorded, which each class has to follow.
func (e *Engine) Moves() uint64 { return e.columns.Journal.Now }
