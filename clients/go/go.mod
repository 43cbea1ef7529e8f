module tarry.io/tarry/clients/go

go 1.21
