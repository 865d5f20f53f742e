// mixer
