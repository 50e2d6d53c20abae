package load

import "context"

// FirePortably is Fire as it is where there is no engine of its own.
func FirePortably(ctx context.Context, l Load) (Result, error) {
	return fire(ctx, &run{Load: l, portable: true})
}
