module echo

go 1.19
