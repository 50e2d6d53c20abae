package payload_test

import (
	"fmt"

	"github.com/hookonce/hookonce/pkg/payload"
)

func ExampleScan() {
	id, err := payload.ParsePointer("/id")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, body := range []string{`{"id":"evt_1"}`, `{"id":5}`, `{"id":"a","id":"b"}`} {
		found, err := payload.Scan([]byte(body), id)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(found[0].Text())
	}
	// Output:
	// evt_1 <nil>
	//  is a number, want a string
	// /id: duplicate key "id"
}
